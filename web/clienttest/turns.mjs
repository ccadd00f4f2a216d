// The JavaScript clients against a gateway with a scripted provider behind it; see turns.py.
//   node turns.mjs LIBRARY…      BASE_URL (with /v1), API_KEY and MODELS come from the environment
import assert from 'node:assert/strict';

const { BASE_URL, API_KEY, MODELS } = process.env;
const ROOT = BASE_URL.replace(/\/v1$/, '');
const HELLO = 'Hello from the fake provider.', DONE = 'The tool has answered; all is done.';
const CALL = 'please call the tool get_weather with {"city":"Oslo"} please', FAIL = 'please fail with invalid';
const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const user = (content) => [{ role: 'user', content }];

const libraries = {
	async openai(model) {
		const { default: OpenAI } = await import('openai');
		const c = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
		assert.equal((await c.chat.completions.create({ model, messages: user('Hi') })).choices[0].message.content, HELLO);
		let text = '';
		for await (const x of await c.chat.completions.create({ model, messages: user('Hi'), stream: true })) text += x.choices[0].delta.content ?? '';
		assert.equal(text, HELLO);
		const tools = [{ type: 'function', function: { name: 'get_weather', parameters: SCHEMA } }];
		const m = (await c.chat.completions.stream({ model, messages: user(CALL), tools }).finalChatCompletion()).choices[0].message;
		assert.deepEqual(JSON.parse(m.tool_calls[0].function.arguments), { city: 'Oslo' });
		const back = [...user(CALL), m, { role: 'tool', tool_call_id: m.tool_calls[0].id, content: 'Sunny' }];
		assert.equal((await c.chat.completions.create({ model, messages: back, tools })).choices[0].message.content, DONE);
		await assert.rejects(c.chat.completions.create({ model, messages: user(FAIL) }), OpenAI.BadRequestError);
	},
	async openai_responses(model) {
		const { default: OpenAI } = await import('openai');
		const c = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
		assert.equal((await c.responses.create({ model, input: 'Hi', store: false })).output_text, HELLO);
		const s = c.responses.stream({ model, input: 'Hi', store: false });
		const final = await s.finalResponse();
		assert.equal(final.output_text, HELLO);
		const tools = [{ type: 'function', name: 'get_weather', parameters: SCHEMA, strict: false }];
		const r = await c.responses.create({ model, input: CALL, tools, store: false });
		const call = r.output.find((o) => o.type === 'function_call');
		assert.deepEqual(JSON.parse(call.arguments), { city: 'Oslo' });
		const back = [...user(CALL), ...r.output, { type: 'function_call_output', call_id: call.call_id, output: 'Sunny' }];
		assert.equal((await c.responses.create({ model, input: back, tools, store: false })).output_text, DONE);
	},
	async anthropic(model) {
		const { default: Anthropic } = await import('@anthropic-ai/sdk');
		const c = new Anthropic({ baseURL: ROOT, apiKey: API_KEY, maxRetries: 0 });
		assert.equal((await c.messages.create({ model, max_tokens: 64, messages: user('Hi') })).content[0].text, HELLO);
		assert.equal(await c.messages.stream({ model, max_tokens: 64, messages: user('Hi') }).finalText(), HELLO);
		const tools = [{ name: 'get_weather', input_schema: SCHEMA }];
		const r = await c.messages.stream({ model, max_tokens: 64, messages: user(CALL), tools }).finalMessage();
		const call = r.content.find((b) => b.type === 'tool_use');
		assert.deepEqual(call.input, { city: 'Oslo' });
		assert.equal(r.stop_reason, 'tool_use');
		const back = [...user(CALL), { role: 'assistant', content: r.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Sunny' }] }];
		assert.equal((await c.messages.create({ model, max_tokens: 64, messages: back, tools })).content[0].text, DONE);
		await assert.rejects(c.messages.create({ model, max_tokens: 64, messages: user(FAIL) }), Anthropic.BadRequestError);
	},
	async ollama(model) {
		const { Ollama } = await import('ollama');
		const c = new Ollama({ host: ROOT, headers: { Authorization: 'Bearer ' + API_KEY } });
		assert.equal((await c.chat({ model, messages: user('Hi') })).message.content, HELLO);
		let text = '';
		for await (const x of await c.chat({ model, messages: user('Hi'), stream: true })) text += x.message.content;
		assert.equal(text, HELLO);
		const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather.', parameters: SCHEMA } }];
		const r = await c.chat({ model, messages: user(CALL), tools });
		assert.deepEqual(r.message.tool_calls[0].function.arguments, { city: 'Oslo' });
		const back = [...user(CALL), r.message, { role: 'tool', content: 'Sunny', tool_name: 'get_weather' }];
		assert.equal((await c.chat({ model, messages: back, tools })).message.content, DONE);
		await assert.rejects(c.chat({ model, messages: user(FAIL) }));
	},
	async google_genai(model) {
		const { GoogleGenAI } = await import('@google/genai');
		const c = new GoogleGenAI({ apiKey: API_KEY, httpOptions: { baseUrl: ROOT } });
		assert.equal((await c.models.generateContent({ model, contents: 'Hi' })).text, HELLO);
		let text = '';
		for await (const x of await c.models.generateContentStream({ model, contents: 'Hi' })) text += x.text ?? '';
		assert.equal(text, HELLO);
		const config = { tools: [{ functionDeclarations: [{ name: 'get_weather', description: 'Weather.', parametersJsonSchema: SCHEMA }] }] };
		const r = await c.models.generateContent({ model, contents: CALL, config });
		assert.deepEqual(r.functionCalls[0].args, { city: 'Oslo' });
	},
};

let failed = 0;
for (const name of process.argv.slice(2)) {
	for (const model of MODELS.split(',')) {
		try {
			await libraries[name](model);
			console.log(`ok   ${name} through ${model}`);
		} catch (e) {
			failed++;
			console.log(`FAIL ${name} through ${model}: ${String(e?.stack ?? e).slice(0, 800)}`);
		}
	}
}
process.exit(failed ? 1 : 0);
