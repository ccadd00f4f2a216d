"""Runs google-genai against BASE_URL with API_KEY and MODEL from the environment."""

import base64
import os
import sys

from google import genai
from google.genai import errors, types

URL = os.environ["BASE_URL"].removesuffix("/v1")
KEY, MODEL = os.environ["API_KEY"], os.environ["MODEL"]
SCRIPTED = os.environ.get("SCRIPTED") == "1"


def client(key=KEY, **options):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=URL, **options))


def check(what, ok):
    print(("ok   " if ok else "FAIL ") + what)
    if not ok:
        check.failed = True


check.failed = False
c = client()

r = c.models.generate_content(model=MODEL, contents="say hello", config=types.GenerateContentConfig(max_output_tokens=32))
check("an answer", bool(r.text) and r.candidates[0].finish_reason is not None)
check("usage", r.usage_metadata.prompt_token_count > 0 and r.usage_metadata.total_token_count > r.usage_metadata.prompt_token_count)
check("names", bool(r.model_version) and bool(r.response_id))

chunks = list(c.models.generate_content_stream(model=MODEL, contents="say hello", config={"max_output_tokens": 32}))
check("a stream", "".join(x.text or "" for x in chunks) != "" and chunks[-1].candidates[0].finish_reason is not None)
check("usage of a stream", chunks[-1].usage_metadata.candidates_token_count > 0)

if SCRIPTED:
    check("the text", r.text == "You said: say hello")
    check("the text of the stream", "".join(x.text or "" for x in chunks) == "You said: say hello")

    weather = {"name": "weather", "description": "tells the weather", "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}}
    tools = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[weather])])
    r = c.models.generate_content(model=MODEL, contents="weather?", config=tools)
    call = r.function_calls[0]
    check("a call", call.name == "weather" and call.args == {"city": "Oslo"} and bool(call.id))
    chunks = list(c.models.generate_content_stream(model=MODEL, contents="weather?", config=tools))
    calls = [f for x in chunks for f in (x.function_calls or [])]
    check("a call in a stream", len(calls) == 1 and calls[0].args == {"city": "Oslo"})
    back = [
        types.Content(role="user", parts=[types.Part(text="weather?")]),
        r.candidates[0].content,
        types.Content(role="user", parts=[types.Part.from_function_response(name="weather", response={"result": "rain"})]),
    ]
    r = c.models.generate_content(model=MODEL, contents=back, config=tools)
    check("after a result", r.text == "You said: rain")

    def now(city: str) -> str:
        """Tells the weather.

        Args:
            city: where
        """
        return "sun in " + city

    r = c.models.generate_content(model=MODEL, contents="weather?", config=types.GenerateContentConfig(tools=[now]))
    check("a function called by the client itself", r.text == "You said: sun in Oslo")

    thoughts = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=128))
    r = c.models.generate_content(model=MODEL, contents="think hard", config=thoughts)
    parts = r.candidates[0].content.parts
    check("thoughts", [p.thought for p in parts] == [True, None] and r.usage_metadata.thoughts_token_count == 3)
    r = c.models.generate_content(model=MODEL, contents="think hard")
    check("no thoughts unasked", len(r.candidates[0].content.parts) == 1)

    r = c.models.generate_content(
        model=MODEL, contents="data",
        config=types.GenerateContentConfig(response_mime_type="application/json", response_schema={"type": "OBJECT", "properties": {"said": {"type": "BOOLEAN"}, "n": {"type": "INTEGER"}}}),
    )
    check("JSON", r.parsed == {"said": True, "n": 7})
    r = c.models.generate_content(model=MODEL, contents="many words", config=types.GenerateContentConfig(max_output_tokens=1, candidate_count=2))
    check("candidates cut short", [x.finish_reason for x in r.candidates] == [types.FinishReason.MAX_TOKENS] * 2)
    r = c.models.generate_content(model=MODEL, contents="odds", config=types.GenerateContentConfig(response_logprobs=True, logprobs=2))
    lp = r.candidates[0].logprobs_result
    check("log-probabilities", len(lp.chosen_candidates) > 0 and len(lp.top_candidates[0].candidates) == 2)

    check("counting", c.models.count_tokens(model=MODEL, contents="one two three").total_tokens == 3)
    e = c.models.embed_content(model=MODEL, contents=["a", "b"], config=types.EmbedContentConfig(output_dimensionality=8))
    check("embeddings", [len(x.values) for x in e.embeddings] == [8, 8])

    chat = c.chats.create(model=MODEL)
    check("a chat", chat.send_message("one").text == "You said: one" and chat.send_message("two").text == "You said: two")

    try:
        list(c.models.generate_content_stream(model=MODEL, contents="die"))
        check("an error in a stream", False)
    except errors.APIError as err:
        check("an error in a stream", err.code == 503 and err.status == "UNAVAILABLE")
    try:
        c.models.generate_content(model=MODEL, contents="error rate_limit_exceeded")
        check("an error", False)
    except errors.ClientError as err:
        check("an error", err.code == 429 and err.status == "RESOURCE_EXHAUSTED" and err.message == "as you asked")

    v = genai.Client(vertexai=True, api_key=KEY, http_options=types.HttpOptions(base_url=URL))
    check("the paths of Vertex AI", v.models.generate_content(model=MODEL, contents="hi").text == "You said: hi")

check("the list of models", "models/" + MODEL in [m.name for m in c.models.list()])
check("one model", c.models.get(model=MODEL).name == "models/" + MODEL)
try:
    wrong = client("hk-wrong")
    wrong.models.generate_content(model=MODEL, contents="hi")
    check("a wrong key", False)
except errors.ClientError as err:
    check("a wrong key", err.code == 401 and err.status == "UNAUTHENTICATED")
try:
    c.models.generate_content(model="no-such-model", contents="hi")
    check("a wrong model", False)
except errors.ClientError as err:
    check("a wrong model", err.code == 404 and err.status == "NOT_FOUND")

sys.exit(1 if check.failed else 0)
