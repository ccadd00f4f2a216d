"""Drives a running Hearth with the official OpenAI Python SDK, unchanged.

    python3 openai_check.py DATA_DIR [MODEL]

DATA_DIR is the data directory of the running server (for first-run.json). The last line says how many checks passed.
"""
import json
import ssl
import sys

import openai

run = json.load(open(sys.argv[1] + "/first-run.json"))
MODEL = sys.argv[2] if len(sys.argv) > 2 else "hearth-tiny"
transport = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=run["ca_file"]))
base = run["base_url"].rstrip("/")
base = base if base.endswith("/v1") else base + "/v1"


def connect(key=run["api_key"], **kw):
    return openai.OpenAI(base_url=base, api_key=key, http_client=transport, max_retries=0, **kw)


client = connect()
passed, failed = 0, []


def check(f):
    global passed
    try:
        f()
        passed += 1
    except Exception as e:  # report every failure, not the first one only
        failed.append(f"{f.__name__}: {type(e).__name__}: {e}")


def ask(text="How do I add a model?", **kw):
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], **{"max_tokens": 24, "temperature": 0, **kw})


def raises(kind, f, code=None):
    try:
        f()
    except openai.APIError as e:
        assert type(e) is kind, f"{type(e).__name__} instead of {kind.__name__}: {e}"
        assert code is None or e.code == code, f"code {e.code!r} instead of {code!r}"
        return e
    raise AssertionError(f"nothing raised instead of {kind.__name__}")


@check
def chat():
    r = ask()
    assert r.object == "chat.completion" and r.choices[0].message.content and r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens


@check
def stream_equals_whole():
    whole = ask().choices[0].message.content
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert len({c.id for c in chunks}) == 1


@check
def stream_manager():
    with client.chat.completions.stream(model=MODEL, messages=[{"role": "user", "content": "Hello"}], temperature=0) as s:
        for _ in s:
            pass
        assert s.get_final_completion().choices[0].finish_reason


TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}}}


@check
def tools():
    r = ask("What is the weather in Oslo?", tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=120)
    call = r.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and set(json.loads(call.function.arguments)) == {"city"}
    assert r.choices[0].finish_reason == "tool_calls"


@check
def tools_streamed():
    name, args = "", ""
    for c in ask("Oslo?", tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_weather"}}, stream=True, max_tokens=120):
        for d in (c.choices[0].delta.tool_calls or []) if c.choices else []:
            name += d.function.name or ""
            args += d.function.arguments or ""
    assert name == "get_weather" and "city" in json.loads(args)


@check
def json_schema():
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
              "required": ["name", "age"], "additionalProperties": False}
    r = ask(response_format={"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}, max_tokens=80)
    v = json.loads(r.choices[0].message.content)
    assert set(v) == {"name", "age"} and 0 <= v["age"] <= 120


@check
def logprobs():
    r = ask(logprobs=True, top_logprobs=3)
    assert len(r.choices[0].logprobs.content) == r.usage.completion_tokens
    assert all(len(e.top_logprobs) == 3 for e in r.choices[0].logprobs.content)


@check
def three_choices():
    r = ask("Tell me something", n=3, temperature=2, seed=7)
    again = ask("Tell me something", n=3, temperature=2, seed=7)
    texts = [c.message.content for c in r.choices]
    assert [c.index for c in r.choices] == [0, 1, 2] and len(set(texts)) > 1 and texts == [c.message.content for c in again.choices]


@check
def completions():
    r = client.completions.create(model=MODEL, prompt=["Hearth is", "A key"], max_tokens=5, echo=True, logprobs=2)
    assert r.choices[0].text.startswith("Hearth is") and r.choices[1].index == 1 and r.choices[0].logprobs.tokens


@check
def embeddings():
    r = client.embeddings.create(model=MODEL, input=["one", "two"])
    assert len(r.data) == 2 and abs(sum(x * x for x in r.data[0].embedding) - 1) < 1e-3


@check
def models():
    assert MODEL in [m.id for m in client.models.list()] and client.models.retrieve(MODEL).id == MODEL


@check
def error_401():
    raises(openai.AuthenticationError, lambda: connect("hk_wrong").models.list(), "invalid_api_key")


@check
def error_400():
    e = raises(openai.BadRequestError, lambda: ask(temperature=9))
    assert e.param == "temperature"


@check
def error_400_context():
    raises(openai.BadRequestError, lambda: ask("word " * 60000), "context_length_exceeded")


@check
def error_404():
    raises(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}]), "model_not_found")


@check
def error_unknown_field():
    raises(openai.BadRequestError, lambda: ask(extra_body={"no_such_field": 1}))




if len(sys.argv) > 3:  # keys prepared by the caller: one without money, one with a rate limit of 1 request a minute
    broke, limited = sys.argv[3], sys.argv[4]

    @check
    def error_429_quota():
        e = raises(openai.RateLimitError, lambda: connect(broke).chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=64), "insufficient_quota")
        assert e.response.headers["x-should-retry"] == "false"

    @check
    def error_429_rate():
        c = connect(limited)
        c.models.list()
        e = raises(openai.RateLimitError, lambda: [c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=1) for _ in range(3)])
        assert 1 <= int(e.response.headers["retry-after"]) <= 60


for line in failed:
    print("FAILED", line)
print(f"{passed} passed, {len(failed)} failed")
sys.exit(1 if failed else 0)
