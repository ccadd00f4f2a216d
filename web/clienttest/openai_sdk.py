"""What the official Python SDK makes of the server: every call that it has and we serve, and every error as its own exception.

Takes BASE_URL, API_KEY and MODEL from the environment; SCRIPTED=1 adds what only the scripted model can do, BROKE_KEY and
LIMITED_KEY (keys of a tenant without money, and of one with two requests a minute) what only a real appliance can.
"""
import os
import sys

import openai
from openai import OpenAI

URL, KEY, MODEL, SCRIPTED = os.environ["BASE_URL"], os.environ["API_KEY"], os.environ["MODEL"], os.environ.get("SCRIPTED")
client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
HI = [{"role": "user", "content": "Say hello."}]
done, failed = 0, 0


def check(f):
    global done, failed
    try:
        f()
        done += 1
    except Exception as e:  # a report, not a crash
        failed += 1
        print(f"FAIL {f.__name__}: {type(e).__name__}: {e}")
    return f


def need(ok, what):
    if not ok:
        raise AssertionError(what)


def raises(kind, f, **want):
    try:
        f()
    except kind as e:
        for k, v in want.items():
            need(getattr(e, k) == v, f"{k} is {getattr(e, k)!r}, wanted {v!r}")
        need(e.request_id and e.request_id.startswith("req_"), f"request_id {e.request_id}")
        return
    raise AssertionError(f"nothing was raised, wanted {kind.__name__}")


@check
def chat():
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=16)
    need(r.choices[0].message.role == "assistant" and r.choices[0].message.content, r)
    need(r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens, r.usage)
    need(r._request_id.startswith("req_"), r._request_id)


@check
def stream():
    chunks = list(client.chat.completions.create(model=MODEL, messages=HI, max_tokens=16, stream=True))
    need(chunks[0].choices[0].delta.role == "assistant", chunks[0])
    need(all(c.usage is None for c in chunks), "usage uninvited")
    need(chunks[-1].choices[0].finish_reason in ("stop", "length"), chunks[-1])


@check
def stream_usage():
    chunks = list(client.chat.completions.create(model=MODEL, messages=HI, max_tokens=16, stream=True, stream_options={"include_usage": True}))
    need(chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0, chunks[-1])
    need(all(c.usage is None for c in chunks[:-1]), "usage twice")


@check
def stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=HI, max_tokens=400, logprobs=True, top_logprobs=2) as s:
        kinds = {e.type for e in s}
        final = s.get_final_completion()
    need("content.delta" in kinds and final.choices[0].message.content, kinds)


@check
def logprobs():
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=4, logprobs=True, top_logprobs=3)
    lps = r.choices[0].logprobs.content
    need(len(lps) == r.usage.completion_tokens and all(len(x.top_logprobs) == 3 and x.bytes for x in lps), lps)


@check
def several():
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=4, n=3, seed=1, temperature=1)
    need([c.index for c in r.choices] == [0, 1, 2], r)


@check
def parts_and_system():
    r = client.chat.completions.create(model=MODEL, max_tokens=4, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    need(r.choices, r)


@check
def round_trip_of_a_message():
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=4)
    r = client.chat.completions.create(model=MODEL, max_tokens=4, messages=HI + [r.choices[0].message, {"role": "user", "content": "Go on."}])
    need(r.choices, r)


@check
def full_dump_of_a_message():
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=4)
    client.chat.completions.create(model=MODEL, max_tokens=4, messages=HI + [r.choices[0].message.model_dump(), {"role": "user", "content": "Go on."}])


@check
def tools():
    fn = {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}
    ask = [{"role": "user", "content": "What is the weather in Oslo?"}]
    r = client.chat.completions.create(model=MODEL, messages=ask, tools=[fn], tool_choice="required", max_tokens=400)
    call = r.choices[0].message.tool_calls[0]
    need(call.function.name == "get_weather" and r.choices[0].finish_reason == "tool_calls", r)
    back = ask + [r.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}]
    need(client.chat.completions.create(model=MODEL, messages=back, tools=[fn], max_tokens=8).choices, "no answer to the result")
    with client.chat.completions.stream(model=MODEL, messages=ask, tools=[fn], tool_choice="required", max_tokens=400) as s:
        for _ in s:
            pass
        call = s.get_final_completion().choices[0].message.tool_calls[0]
    need(call.function.name == "get_weather" and call.function.arguments, call)


@check
def json_schema():
    schema = {"type": "object", "properties": {"said": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["said", "n"], "additionalProperties": False}
    r = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=60, response_format={"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}})
    import json
    need(set(json.loads(r.choices[0].message.content)) == {"said", "n"}, r)


@check
def completions():
    r = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=4, logprobs=2)
    lp = r.choices[0].logprobs
    need(r.object == "text_completion" and len(lp.tokens) == len(lp.text_offset) == len(lp.token_logprobs), lp)
    chunks = list(client.completions.create(model=MODEL, prompt=["Once", "Twice"], max_tokens=4, stream=True))
    need({c.choices[0].index for c in chunks} == {0, 1}, chunks)


@check
def embeddings():
    r = client.embeddings.create(model=MODEL, input=["a", "b"])
    need(len(r.data) == 2 and abs(sum(x * x for x in r.data[0].embedding) - 1) < 1e-3, r.usage)
    f = client.embeddings.create(model=MODEL, input=["a"], encoding_format="float")
    need(max(abs(x - y) for x, y in zip(f.data[0].embedding, r.data[0].embedding)) < 1e-5, "float and base64 differ")


@check
def models():
    ids = [m.id for m in client.models.list()]
    need(MODEL in ids and client.models.retrieve(MODEL).id == MODEL, ids)


@check
def errors():
    c = client.chat.completions.create
    raises(openai.AuthenticationError, lambda: client.with_options(api_key="sk-wrong").chat.completions.create(model=MODEL, messages=HI), code="invalid_api_key", status_code=401)
    raises(openai.BadRequestError, lambda: c(model=MODEL, messages=HI, temperature=9), param="temperature", type="invalid_request_error")
    raises(openai.BadRequestError, lambda: c(model=MODEL, messages=HI, extra_body={"frobnicate": 1}), param="frobnicate")
    raises(openai.BadRequestError, lambda: c(model=MODEL, messages=[]), param="messages")
    raises(openai.NotFoundError, lambda: c(model="no-such-model", messages=HI), code="model_not_found")
    raises(openai.NotFoundError, lambda: client.models.retrieve("no/such"), code="model_not_found")
    raises(openai.NotFoundError, lambda: client.moderations.create(input="x"), code="not_found")


if os.environ.get("BROKE_KEY"):
    @check
    def real_limits():
        def ask(key):
            return OpenAI(base_url=URL, api_key=key, max_retries=0).chat.completions.create(model=MODEL, messages=HI, max_tokens=64)
        raises(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 60000}]), code="context_length_exceeded")
        raises(openai.RateLimitError, lambda: ask(os.environ["BROKE_KEY"]), code="insufficient_quota")
        raises(openai.RateLimitError, lambda: [ask(os.environ["LIMITED_KEY"]) for _ in range(3)], code="rate_limit_exceeded")


if SCRIPTED:
    def say(what, **kw):
        return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": what}], **kw)

    @check
    def scripted_errors():
        raises(openai.RateLimitError, lambda: client.with_options(api_key="limited").chat.completions.create(model=MODEL, messages=HI), code="rate_limit_exceeded")
        raises(openai.RateLimitError, lambda: client.with_options(api_key="broke", max_retries=2).chat.completions.create(model=MODEL, messages=HI), code="insufficient_quota", type="insufficient_quota")
        raises(openai.PermissionDeniedError, lambda: client.with_options(api_key="forbidden").chat.completions.create(model=MODEL, messages=HI))
        raises(openai.InternalServerError, lambda: say("error internal_error"))
        raises(openai.InternalServerError, lambda: say("error overloaded"), status_code=503)
        raises(openai.BadRequestError, lambda: say("error context_length_exceeded"), code="context_length_exceeded")
        raises(openai.ConflictError, lambda: say("error conflict"))

    @check
    def scripted_break_in_the_stream():
        try:
            for _ in say("die", stream=True):
                pass
        except openai.APIError as e:
            need("worker was lost" in e.message and e.code == "unavailable", e)
            return
        raise AssertionError("the break went unnoticed")

    @check
    def scripted_retries():
        n = []
        c = OpenAI(base_url=URL, api_key="broke", max_retries=2)
        c._client.event_hooks["request"].append(lambda r: n.append(1))
        try:
            c.chat.completions.create(model=MODEL, messages=HI)
        except openai.RateLimitError:
            pass
        need(len(n) == 1, f"a spent budget was asked for {len(n)} times")

print(f"python openai {openai.__version__}: {done} passed, {failed} failed")
sys.exit(1 if failed else 0)
