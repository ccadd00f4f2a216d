// Runs Google's and Ollama's clients for Node, whichever are installed, against
// BASE_URL with API_KEY and MODEL from the environment.
const URL = process.env.BASE_URL.replace(/\/v1$/, "");
const { API_KEY: KEY, MODEL } = process.env;
let failed = false;
const check = (what, ok) => { console.log((ok ? "ok   " : "FAIL ") + what); failed ||= !ok; };
const load = async (name) => { try { return await import(name); } catch { console.log("skip " + name + ": not installed"); } };
const thrown = async (f) => { try { await f(); } catch (e) { return e; } };
const said = "You said: say hello";
let ran = 0;

const google = await load("@google/genai");
if (google) {
  ran++;
  const ai = new google.GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: URL } });
  let r = await ai.models.generateContent({ model: MODEL, contents: "say hello" });
  check("genai: an answer", r.text === said && r.usageMetadata.totalTokenCount > 0);
  const collect = async (stream) => { const all = []; for await (const c of stream) all.push(c); return all; };
  let all = await collect(await ai.models.generateContentStream({ model: MODEL, contents: "say hello" }));
  check("genai: a stream", all.map((c) => c.text ?? "").join("") === said && all.at(-1).candidates[0].finishReason === "STOP");
  const tools = [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: { type: "object", properties: { city: { type: "string" } } } }] }];
  r = await ai.models.generateContent({ model: MODEL, contents: "weather?", config: { tools } });
  check("genai: a call", r.functionCalls[0].args.city === "Oslo");
  all = await collect(await ai.models.generateContentStream({ model: MODEL, contents: "weather?", config: { tools } }));
  check("genai: a call in a stream", all.flatMap((c) => c.functionCalls ?? []).length === 1);
  let e = await thrown(async () => collect(await ai.models.generateContentStream({ model: MODEL, contents: "die" })));
  check("genai: an error in a stream", e && /the worker was lost/.test(e.message));
  e = await thrown(() => ai.models.generateContent({ model: MODEL, contents: "error rate_limit_exceeded" }));
  check("genai: an error", e?.status === 429);
  check("genai: counting", (await ai.models.countTokens({ model: MODEL, contents: "one two" })).totalTokens === 2);
  check("genai: embeddings", (await ai.models.embedContent({ model: MODEL, contents: ["a", "b"] })).embeddings.length === 2);
  const names = [];
  for await (const m of await ai.models.list()) names.push(m.name);
  check("genai: the list of models", names.includes("models/" + MODEL));
}

const ollama = await load("ollama");
if (ollama) {
  ran++;
  const c = new ollama.Ollama({ host: URL, headers: { Authorization: "Bearer " + KEY } });
  const messages = [{ role: "user", content: "say hello" }];
  let r = await c.chat({ model: MODEL, messages });
  check("ollama: a chat", r.message.content === said && r.done && r.eval_count > 0);
  let text = "", last;
  for await (const p of await c.chat({ model: MODEL, messages, stream: true })) { text += p.message.content; last = p; }
  check("ollama: a stream", text === said && last.done && last.total_duration > 0);
  const tools = [{ type: "function", function: { name: "weather", description: "", parameters: { type: "object", properties: { city: { type: "string" } } } } }];
  r = await c.chat({ model: MODEL, messages, tools });
  check("ollama: a call", r.message.tool_calls[0].function.arguments.city === "Oslo");
  check("ollama: generate", (await c.generate({ model: MODEL, prompt: "say hello" })).response === said);
  check("ollama: embeddings", (await c.embed({ model: MODEL, input: ["a", "b"] })).embeddings.length === 2);
  check("ollama: the lists", (await c.list()).models[0].model === MODEL && (await c.ps()).models.length === 1 && (await c.show({ model: MODEL })).details.family !== "");
  let e = await thrown(async () => { for await (const _ of await c.chat({ model: MODEL, messages: [{ role: "user", content: "die" }], stream: true })); });
  check("ollama: an error in a stream", e && /the worker was lost/.test(e.message));
  e = await thrown(() => c.chat({ model: "no-such-model", messages }));
  check("ollama: a wrong model", e?.status_code === 404);
  e = await thrown(() => c.pull({ model: "x" }));
  check("ollama: pulling is refused", e?.status_code === 501);
}

if (ran === 0) console.log("skip: neither client is installed");
process.exit(failed ? 1 : 0);
