"""Each Python client against a gateway that has a scripted provider behind it: a plain answer, a stream, a turn with a tool,
and an error, in the client's own words, through every model of MODELS.

  turns.py LIBRARY…      BASE_URL (with /v1), API_KEY and MODELS (with commas) come from the environment

The provider says "Hello from the fake provider.", calls a tool if it is told "please call the tool NAME with {…} please", says
"The tool has answered; all is done." once it has a result, and fails when it is told "please fail with KIND".
"""
import asyncio
import os
import sys

URL, KEY, MODELS = os.environ["BASE_URL"], os.environ["API_KEY"], os.environ["MODELS"].split(",")
ROOT = URL.removesuffix("/v1")
HELLO, DONE = "Hello from the fake provider.", "The tool has answered; all is done."
CALL = 'please call the tool get_weather with {"city":"Oslo"} please'
FAIL = "please fail with invalid"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def need(ok, what):
    if not ok:
        raise AssertionError(repr(what)[:600])


def raises(kind, f):
    try:
        f()
    except kind as e:
        return e
    raise AssertionError(f"nothing was raised, wanted {kind}")


def openai_chat(model):
    from openai import BadRequestError, OpenAI
    c = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
    ask = [{"role": "user", "content": "Hi"}]
    need(c.chat.completions.create(model=model, messages=ask).choices[0].message.content == HELLO, "whole")
    chunks = list(c.chat.completions.create(model=model, messages=ask, stream=True, stream_options={"include_usage": True}))
    need("".join(x.choices[0].delta.content or "" for x in chunks if x.choices) == HELLO, chunks)
    need(chunks[-1].usage.completion_tokens == 9, chunks[-1])
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    ask = [{"role": "user", "content": CALL}]
    with c.chat.completions.stream(model=model, messages=ask, tools=tools) as s:
        m = s.get_final_completion().choices[0].message
    need(m.tool_calls[0].function.name == "get_weather" and "Oslo" in m.tool_calls[0].function.arguments, m)
    back = ask + [{"role": "assistant", "content": m.content, "tool_calls": [{"id": t.id, "type": "function", "function": {"name": t.function.name, "arguments": t.function.arguments}} for t in m.tool_calls]}, {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": "Sunny"}]
    need(c.chat.completions.create(model=model, messages=back, tools=tools).choices[0].message.content == DONE, "result")
    raises(BadRequestError, lambda: c.chat.completions.create(model=model, messages=[{"role": "user", "content": FAIL}]))


def openai_responses(model):
    from openai import BadRequestError, OpenAI
    c = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
    r = c.responses.create(model=model, input="Hi", store=False)
    need(r.output_text == HELLO and r.status == "completed" and r.usage.output_tokens == 9, r)
    with c.responses.stream(model=model, input="Hi", store=False) as s:
        kinds = [e.type for e in s]
        need(s.get_final_response().output_text == HELLO and kinds[-1] == "response.completed", kinds)
    tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
    r = c.responses.create(model=model, input=CALL, tools=tools, store=False)
    call = [o for o in r.output if o.type == "function_call"][0]
    need(call.name == "get_weather" and "Oslo" in call.arguments, r)
    back = [{"role": "user", "content": CALL}] + [o.model_dump(exclude_none=True) for o in r.output] + [{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}]
    need(c.responses.create(model=model, input=back, tools=tools, store=False).output_text == DONE, "result")
    raises(BadRequestError, lambda: c.responses.create(model=model, input=FAIL, store=False))


def anthropic(model):
    from anthropic import Anthropic, BadRequestError
    for auth in ({"api_key": KEY}, {"auth_token": KEY}):
        c = Anthropic(base_url=ROOT, max_retries=0, **auth)
        r = c.messages.create(model=model, max_tokens=64, messages=[{"role": "user", "content": "Hi"}])
        need(r.content[0].text == HELLO and r.stop_reason == "end_turn" and r.usage.output_tokens == 9, r)
    with c.messages.stream(model=model, max_tokens=64, messages=[{"role": "user", "content": "Hi"}]) as s:
        need("".join(s.text_stream) == HELLO and s.get_final_message().usage.output_tokens == 9, "stream")
    tools = [{"name": "get_weather", "description": "Weather.", "input_schema": SCHEMA}]
    ask = [{"role": "user", "content": CALL}]
    with c.messages.stream(model=model, max_tokens=64, tools=tools, messages=ask) as s:
        r = s.get_final_message()
    call = [b for b in r.content if b.type == "tool_use"][0]
    need(r.stop_reason == "tool_use" and call.name == "get_weather" and call.input == {"city": "Oslo"}, r)
    back = ask + [{"role": "assistant", "content": r.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny"}]}]
    need(c.messages.create(model=model, max_tokens=64, tools=tools, messages=back).content[0].text == DONE, "result")
    raises(BadRequestError, lambda: c.messages.create(model=model, max_tokens=64, messages=[{"role": "user", "content": FAIL}]))


def google_genai(model):
    from google import genai
    from google.genai import errors, types
    c = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=ROOT))
    need(c.models.generate_content(model=model, contents="Hi").text == HELLO, "whole")
    chunks = list(c.models.generate_content_stream(model=model, contents="Hi"))
    need("".join(x.text or "" for x in chunks) == HELLO and chunks[-1].candidates[0].finish_reason, chunks)
    decl = {"name": "get_weather", "description": "Weather.", "parameters_json_schema": SCHEMA}
    conf = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[decl])])
    r = c.models.generate_content(model=model, contents=CALL, config=conf)
    need(r.function_calls[0].name == "get_weather" and r.function_calls[0].args == {"city": "Oslo"}, r)
    back = [types.Content(role="user", parts=[types.Part(text=CALL)]), r.candidates[0].content, types.Content(role="user", parts=[types.Part.from_function_response(name="get_weather", response={"result": "Sunny"})])]
    need(c.models.generate_content(model=model, contents=back, config=conf).text == DONE, "result")
    need(raises(errors.ClientError, lambda: c.models.generate_content(model=model, contents=FAIL)).code == 400, "error")


def ollama(model):
    from ollama import Client, ResponseError
    c = Client(host=ROOT, headers={"Authorization": "Bearer " + KEY})
    ask = [{"role": "user", "content": "Hi"}]
    need(c.chat(model=model, messages=ask).message.content == HELLO, "whole")
    need("".join(x.message.content for x in c.chat(model=model, messages=ask, stream=True)) == HELLO, "stream")
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": SCHEMA}}]
    ask = [{"role": "user", "content": CALL}]
    r = c.chat(model=model, messages=ask, tools=tools)
    need(r.message.tool_calls[0].function.name == "get_weather" and r.message.tool_calls[0].function.arguments["city"] == "Oslo", r)
    back = ask + [r.message, {"role": "tool", "content": "Sunny", "tool_name": "get_weather"}]
    need(c.chat(model=model, messages=back, tools=tools).message.content == DONE, "result")
    raises(ResponseError, lambda: c.chat(model=model, messages=[{"role": "user", "content": FAIL}]))


def langchain(chat):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def get_weather(city: str) -> str:
        """Weather of a city."""
        return "Sunny"

    need(chat.invoke("Hi").text == HELLO, "whole")
    need("".join(x.text for x in chat.stream("Hi")) == HELLO, "stream")
    bound = chat.bind_tools([get_weather])
    ask = [HumanMessage(CALL)]
    r = bound.invoke(ask)
    need(r.tool_calls and r.tool_calls[0]["name"] == "get_weather" and r.tool_calls[0]["args"] == {"city": "Oslo"}, r)
    need(bound.invoke(ask + [r, ToolMessage("Sunny", tool_call_id=r.tool_calls[0]["id"])]).text == DONE, "result")
    try:
        chat.invoke(FAIL)
    except Exception as e:
        need("400" in str(e), e)
        return
    raise AssertionError("nothing was raised")


def langchain_openai(model):
    from langchain_openai import ChatOpenAI
    langchain(ChatOpenAI(model=model, base_url=URL, api_key=KEY, max_retries=0))


def langchain_anthropic(model):
    from langchain_anthropic import ChatAnthropic
    langchain(ChatAnthropic(model=model, base_url=ROOT, api_key=KEY, max_retries=0, max_tokens=256))


def litellm(model):
    import litellm as lite
    for name, base in (("openai/" + model, URL), ("anthropic/" + model, ROOT)):
        kw = dict(model=name, api_base=base, api_key=KEY, num_retries=0)
        ask = [{"role": "user", "content": "Hi"}]
        need(lite.completion(messages=ask, **kw).choices[0].message.content == HELLO, name)
        need("".join(x.choices[0].delta.content or "" for x in lite.completion(messages=ask, stream=True, **kw)) == HELLO, name)
        tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": SCHEMA}}]
        m = lite.completion(messages=[{"role": "user", "content": CALL}], tools=tools, **kw).choices[0].message
        need(m.tool_calls[0].function.name == "get_weather", m)
        back = [{"role": "user", "content": CALL}, m.model_dump(), {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": "Sunny"}]
        need(lite.completion(messages=back, tools=tools, **kw).choices[0].message.content == DONE, name)
        raises(Exception, lambda: lite.completion(messages=[{"role": "user", "content": FAIL}], **kw))


def async_clients(model):
    """Many at once, as servers use them: httpx's HTTP/2-less pool and asyncio."""
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    async def all():
        o, a = AsyncOpenAI(base_url=URL, api_key=KEY), AsyncAnthropic(base_url=ROOT, api_key=KEY)
        ask = [{"role": "user", "content": "Hi"}]
        got = await asyncio.gather(*[o.chat.completions.create(model=model, messages=ask) for _ in range(20)], *[a.messages.create(model=model, max_tokens=9, messages=ask) for _ in range(20)])
        need(all_hello(got), "answers")
        await o.close()
        await a.close()

    def all_hello(got):
        return [x.choices[0].message.content if hasattr(x, "choices") else x.content[0].text for x in got] == [HELLO] * 40

    asyncio.run(all())


failed = 0
for name in sys.argv[1:]:
    for model in MODELS:
        try:
            globals()[name](model)
            print(f"ok   {name} through {model}")
        except Exception as e:  # a report, not a crash
            failed += 1
            print(f"FAIL {name} through {model}: {type(e).__name__}: {str(e)[:800]}")
sys.exit(1 if failed else 0)
