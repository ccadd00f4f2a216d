"""Runs Ollama's own client against BASE_URL with API_KEY and MODEL from the environment."""

import os
import sys

import ollama

URL = os.environ["BASE_URL"].removesuffix("/v1")
KEY, MODEL = os.environ["API_KEY"], os.environ["MODEL"]
SCRIPTED = os.environ.get("SCRIPTED") == "1"


def check(what, ok):
    print(("ok   " if ok else "FAIL ") + what)
    if not ok:
        check.failed = True


check.failed = False
os.environ["OLLAMA_API_KEY"] = KEY
c = ollama.Client(host=URL)
user = [{"role": "user", "content": "say hello"}]

r = c.chat(model=MODEL, messages=user, options={"num_predict": 32})
check("a chat", bool(r.message.content) and r.done and r.done_reason in ("stop", "length"))
check("counts", r.prompt_eval_count > 0 and r.eval_count > 0 and r.total_duration > 0)
parts = list(c.chat(model=MODEL, messages=user, stream=True, options={"num_predict": 32}))
check("a stream", "".join(p.message.content or "" for p in parts) != "" and parts[-1].done and not any(p.done for p in parts[:-1]))
check("durations", parts[-1].total_duration >= parts[-1].eval_duration >= 0 and parts[-1].prompt_eval_duration >= 0)
r = c.generate(model=MODEL, prompt="say hello", options={"num_predict": 32})
check("generate", bool(r.response) and r.done)
parts = list(c.generate(model=MODEL + ":latest", prompt="say hello", stream=True, options={"num_predict": 32}))
check("generate, streamed, with a tag", "".join(p.response for p in parts) != "" and parts[-1].done)
r = c.generate(model=MODEL)
check("loading", r.done_reason == "load" and r.response == "")

if SCRIPTED:
    check("the text", r.model == MODEL and c.chat(model=MODEL, messages=user).message.content == "You said: say hello")

    def weather(city: str) -> str:
        """Tells the weather.

        Args:
            city: where
        """
        return "rain in " + city

    r = c.chat(model=MODEL, messages=user, tools=[weather])
    call = r.message.tool_calls[0].function
    check("a call", call.name == "weather" and call.arguments == {"city": "Oslo"})
    parts = list(c.chat(model=MODEL, messages=user, tools=[weather], stream=True))
    calls = [t for p in parts for t in (p.message.tool_calls or [])]
    check("a call in a stream", len(calls) == 1 and calls[0].function.arguments == {"city": "Oslo"})
    back = user + [r.message, {"role": "tool", "tool_name": "weather", "content": weather(**call.arguments)}]
    check("after a result", c.chat(model=MODEL, messages=back, tools=[weather]).message.content == "You said: rain in Oslo")

    r = c.chat(model=MODEL, messages=[{"role": "user", "content": "think hard"}], think=True)
    check("thinking", r.message.thinking == "let me see" and r.message.content == "You said: think hard")
    r = c.chat(model=MODEL, messages=[{"role": "user", "content": "think hard"}], think=False)
    check("no thinking", not r.message.thinking)
    r = c.chat(model=MODEL, messages=user, format={"type": "object", "properties": {"n": {"type": "integer"}}})
    check("JSON", r.message.content == '{"said": true, "n": 7}')
    r = c.chat(model=MODEL, messages=user, options={"num_predict": 1})
    check("cut short", r.done_reason == "length")
    r = c.chat(model=MODEL, messages=user, logprobs=True, top_logprobs=2)
    check("log-probabilities", len(r.logprobs) > 0 and len(r.logprobs[0].top_logprobs) == 2)
    r = c.embed(model=MODEL, input=["a", "b"], dimensions=8)
    check("embeddings", [len(v) for v in r.embeddings] == [8, 8] and r.prompt_eval_count == 4)
    check("older embeddings", len(c.embeddings(model=MODEL, prompt="a").embedding) == 4)
    try:
        list(c.chat(model=MODEL, messages=[{"role": "user", "content": "die"}], stream=True))
        check("an error in a stream", False)
    except ollama.ResponseError as err:
        check("an error in a stream", err.error == "the worker was lost")
    try:
        c.chat(model=MODEL, messages=[{"role": "user", "content": "error rate_limit_exceeded"}])
        check("an error", False)
    except ollama.ResponseError as err:
        check("an error", err.status_code == 429 and err.error == "as you asked")

check("the list of models", MODEL in [m.model for m in c.list().models])
check("what runs", all(m.context_length > 0 for m in c.ps().models))
s = c.show(MODEL)
check("one model", "completion" in s.capabilities and s.details.family and s.modelinfo["general.architecture"])
for what, call in (
    ("pulling", lambda: c.pull("other")), ("deleting", lambda: c.delete(MODEL)), ("copying", lambda: c.copy(MODEL, "x")),
    ("pushing", lambda: c.push(MODEL)), ("creating", lambda: c.create(model="x", from_=MODEL)),
):
    try:
        call()
        check(what + " is refused", False)
    except ollama.ResponseError as err:
        check(what + " is refused", err.status_code == 501)
try:
    c.chat(model="no-such-model", messages=user)
    check("a wrong model", False)
except ollama.ResponseError as err:
    check("a wrong model", err.status_code == 404)
try:
    ollama.Client(host=URL, headers={"Authorization": "Bearer hk-wrong"}).list()
    check("a wrong key", False)
except ollama.ResponseError as err:
    check("a wrong key", err.status_code == 401)

sys.exit(1 if check.failed else 0)
