// What the official Node SDK makes of the server: as openai_sdk.py.
import OpenAI from "openai";

const { BASE_URL, API_KEY, MODEL, SCRIPTED } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0, timeout: 120000 });
const HI = [{ role: "user", content: "Say hello." }];
let done = 0, failed = 0;

async function check(name, f) {
  try {
    await f();
    done++;
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}: ${e.constructor.name}: ${e.message}`);
  }
}

function need(ok, what) {
  if (!ok) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

async function raises(kind, f, want = {}) {
  try {
    await f();
  } catch (e) {
    need(e instanceof kind, `raised ${e.constructor.name}, wanted ${kind.name}`);
    for (const [k, v] of Object.entries(want)) need(e[k] === v, `${k} is ${e[k]}, wanted ${v}`);
    need(e.requestID?.startsWith("req_"), `request id ${e.requestID}`);
    return;
  }
  throw new Error(`nothing was raised, wanted ${kind.name}`);
}

const chat = (extra) => client.chat.completions.create({ model: MODEL, messages: HI, max_tokens: 16, ...extra });

await check("chat", async () => {
  const r = await chat();
  need(r.choices[0].message.content && r.usage.total_tokens === r.usage.prompt_tokens + r.usage.completion_tokens, r);
  need(r._request_id.startsWith("req_"), r._request_id);
});

await check("stream", async () => {
  let text = "", last = null, usage = null;
  for await (const c of await chat({ stream: true, stream_options: { include_usage: true } })) {
    text += c.choices[0]?.delta?.content ?? "";
    last = c.choices[0]?.finish_reason ?? last;
    usage = c.usage ?? usage;
  }
  need(text && ["stop", "length"].includes(last) && usage.completion_tokens > 0, { text, last, usage });
});

await check("stream helper", async () => {
  const s = client.chat.completions.stream({ model: MODEL, messages: HI, max_tokens: 16, n: 2 });
  const r = await s.finalChatCompletion();
  need(r.choices.length === 2 && r.choices[1].message.content, r);
});

await check("logprobs", async () => {
  const r = await chat({ logprobs: true, top_logprobs: 3, max_tokens: 4 });
  need(r.choices[0].logprobs.content.every((x) => x.top_logprobs.length === 3), r);
});

await check("n", async () => need((await chat({ n: 3 })).choices.length === 3, "choices"));

const fn = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false } } };

await check("tools", async () => {
  const ask = [{ role: "user", content: "What is the weather in Oslo?" }];
  const r = await chat({ messages: ask, tools: [fn], tool_choice: "required", max_tokens: 400 });
  const call = r.choices[0].message.tool_calls[0];
  need(call.function.name === "get_weather" && r.choices[0].finish_reason === "tool_calls", r);
  const back = await chat({ messages: [...ask, r.choices[0].message, { role: "tool", tool_call_id: call.id, content: "Sunny." }], tools: [fn] });
  need(back.choices.length === 1, back);
  const s = client.chat.completions.stream({ model: MODEL, messages: ask, tools: [fn], tool_choice: "required", max_tokens: 400 });
  const f = await s.finalChatCompletion();
  need(JSON.parse(f.choices[0].message.tool_calls[0].function.arguments).city, f);
});

await check("json_schema", async () => {
  const schema = { type: "object", properties: { said: { type: "boolean" }, n: { type: "integer", minimum: 0, maximum: 9 } }, required: ["said", "n"], additionalProperties: false };
  const r = await chat({ max_tokens: 60, response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema } } });
  need(JSON.parse(r.choices[0].message.content).n >= 0, r);
});

await check("completions", async () => {
  const r = await client.completions.create({ model: MODEL, prompt: "Once upon", max_tokens: 4 });
  need(r.choices[0].text !== undefined, r);
});

await check("embeddings", async () => {
  const r = await client.embeddings.create({ model: MODEL, input: ["a", "b"] });
  need(r.data.length === 2 && Math.abs(r.data[0].embedding.reduce((s, x) => s + x * x, 0) - 1) < 1e-3, r.usage);
});

await check("models", async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  need(ids.includes(MODEL) && (await client.models.retrieve(MODEL)).id === MODEL, ids);
});

await check("errors", async () => {
  const wrong = new OpenAI({ baseURL: BASE_URL, apiKey: "sk-wrong", maxRetries: 0 });
  await raises(OpenAI.AuthenticationError, () => wrong.models.list(), { code: "invalid_api_key" });
  await raises(OpenAI.BadRequestError, () => chat({ temperature: 9 }), { param: "temperature" });
  await raises(OpenAI.BadRequestError, () => chat({ frobnicate: 1 }), { param: "frobnicate" });
  await raises(OpenAI.NotFoundError, () => chat({ model: "no-such-model" }), { code: "model_not_found" });
});

if (SCRIPTED) {
  const as = (apiKey) => new OpenAI({ baseURL: BASE_URL, apiKey, maxRetries: 0 }).models.list();
  await check("scripted errors", async () => {
    await raises(OpenAI.RateLimitError, () => as("limited"), { code: "rate_limit_exceeded" });
    await raises(OpenAI.RateLimitError, () => as("broke"), { code: "insufficient_quota" });
    await raises(OpenAI.PermissionDeniedError, () => as("forbidden"));
    await raises(OpenAI.InternalServerError, () => chat({ messages: [{ role: "user", content: "error internal_error" }] }));
  });
  await check("scripted break in the stream", async () => {
    try {
      for await (const _ of await chat({ stream: true, messages: [{ role: "user", content: "die" }] }));
    } catch (e) {
      need(e instanceof OpenAI.APIError && String(e.message).includes("worker was lost"), e.message);
      return;
    }
    throw new Error("the break went unnoticed");
  });
}

console.log(`node openai: ${done} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
