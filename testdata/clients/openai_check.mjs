// Drives a running Hearth with the official OpenAI JavaScript SDK, unchanged.
//
//     NODE_EXTRA_CA_CERTS=DATA_DIR/ca.pem node openai_check.mjs DATA_DIR [MODEL]
import fs from 'node:fs';
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const run = JSON.parse(fs.readFileSync(process.argv[2] + '/first-run.json'));
const MODEL = process.argv[3] ?? 'hearth-tiny';
const base = run.base_url.replace(/\/$/, '').replace(/\/v1$/, '') + '/v1';
const connect = (apiKey = run.api_key) => new OpenAI({ baseURL: base, apiKey, maxRetries: 0 });
const client = connect();
let passed = 0;
const failed = [];

async function check(name, f) {
  try {
    await f();
    passed++;
  } catch (e) {
    failed.push(`${name}: ${e.constructor.name}: ${e.message}`);
  }
}

const ask = (content = 'How do I add a model?', more = {}) =>
  client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content }], max_tokens: 24, temperature: 0, ...more });

async function raises(kind, f, code) {
  let error;
  try {
    await f();
  } catch (e) {
    error = e;
  }
  assert(error instanceof kind, `${error?.constructor.name} instead of ${kind.name}: ${error?.message}`);
  if (code) assert.equal(error.code, code);
  return error;
}

const TOOL = { type: 'function', function: { name: 'get_weather', description: 'Weather of a city', strict: true, parameters: {
  type: 'object', properties: { city: { type: 'string', maxLength: 12 } }, required: ['city'], additionalProperties: false } } };

await check('chat', async () => {
  const r = await ask();
  assert(r.choices[0].message.content);
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});
await check('stream', async () => {
  const whole = (await ask()).choices[0].message.content;
  let text = '', usage;
  for await (const c of await ask(undefined, { stream: true, stream_options: { include_usage: true } })) {
    text += c.choices[0]?.delta.content ?? '';
    usage = c.usage ?? usage;
  }
  assert.equal(text, whole);
  assert(usage.completion_tokens > 0);
});
await check('tools', async () => {
  const r = await ask('What is the weather in Oslo?', { tools: [TOOL], tool_choice: 'required', parallel_tool_calls: false, max_tokens: 120 });
  const call = r.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'get_weather');
  assert('city' in JSON.parse(call.function.arguments));
});
await check('json_schema', async () => {
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'], additionalProperties: false };
  const r = await ask(undefined, { response_format: { type: 'json_schema', json_schema: { name: 'flag', strict: true, schema } } });
  assert.equal(typeof JSON.parse(r.choices[0].message.content).ok, 'boolean');
});
await check('logprobs', async () => {
  const r = await ask(undefined, { logprobs: true, top_logprobs: 2 });
  assert.equal(r.choices[0].logprobs.content.length, r.usage.completion_tokens);
});
await check('three choices', async () => {
  const r = await ask(undefined, { n: 3, temperature: 1.5, seed: 7 });
  assert.equal(r.choices.length, 3);
});
await check('embeddings', async () => {
  const r = await client.embeddings.create({ model: MODEL, input: 'one' });
  assert(r.data[0].embedding.length > 8);
});
await check('models', async () => assert((await client.models.list()).data.some((m) => m.id === MODEL)));
await check('401', () => raises(OpenAI.AuthenticationError, () => connect('hk_wrong').models.list(), 'invalid_api_key'));
await check('400', () => raises(OpenAI.BadRequestError, () => ask(undefined, { temperature: 9 })));
await check('400 context', () => raises(OpenAI.BadRequestError, () => ask('word '.repeat(60000)), 'context_length_exceeded'));
await check('404', () => raises(OpenAI.NotFoundError, () => client.chat.completions.create({ model: 'no-such-model', messages: [{ role: 'user', content: 'x' }] })));

for (const line of failed) console.log('FAILED', line);
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
