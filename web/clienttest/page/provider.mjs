// A provider that speaks OpenAI's chat and says who it is: a word every 40 ms for
// as long as max_tokens lets it, when it streams.
import { createServer } from "node:http";

export async function provider(name) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const asked = JSON.parse(body || "{}");
    const usage = { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 };
    const head = { id: "chatcmpl-" + name, created: 1, model: asked.model };
    if (!asked.stream) {
      response.writeHead(200, { "content-type": "application/json" });
      usage.completion_tokens = 2;
      usage.total_tokens = 7;
      return response.end(JSON.stringify({ ...head, object: "chat.completion", usage, choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "from " + name } }] }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const say = (more) => response.write("data: " + JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [], ...more }) + "\n\n");
    const choice = (delta, finish_reason = null) => say({ choices: [{ index: 0, delta, finish_reason }] });
    choice({ role: "assistant", content: "" });
    const most = asked.max_tokens ?? asked.max_completion_tokens ?? 100;
    for (let i = 0; i < most && !response.destroyed; i++) {
      choice({ content: (i ? " " : "from ") + name });
      usage.completion_tokens++;
      await new Promise((wake) => setTimeout(wake, 40));
    }
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    choice({}, "length");
    say({ usage });
    response.end("data: [DONE]\n\n");
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { address: "http://127.0.0.1:" + server.address().port, close: () => { server.closeAllConnections(); server.close(); } };
}
