// The chat box: a stream from /v1/chat/completions, paid for by whoever is
// signed in. What the model says is shown as text and never as markup.
import { ms } from "./status.js";

const byId = (id) => document.getElementById(id);
const talk = byId("talk");
const form = byId("chat");
const words = byId("words");
const figures = byId("figures");
const messages = [];
let running = null;

function bubble(who) {
  const box = document.createElement("div");
  box.className = "said " + who;
  const name = document.createElement("span");
  name.className = "who";
  name.textContent = who === "user" ? "You" : byId("model").value;
  const mind = document.createElement("span");
  mind.className = "mind";
  const text = document.createElement("span");
  box.append(name, mind, text);
  talk.append(box);
  talk.scrollTop = talk.scrollHeight;
  return { box, mind, text };
}

// frames yields the data of each event, however the bytes are cut.
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const p of parts) {
      const data = p.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
      if (data) yield data;
    }
  }
}

function tellFigures(started, first, last, usage) {
  const out = [];
  if (first) out.push("first token after " + ms(first - started));
  const n = usage?.completion_tokens ?? 0;
  if (n > 1 && last > first) out.push(((n - 1) / ((last - first) / 1000)).toFixed(1) + " tokens/s");
  if (usage) out.push(`${usage.prompt_tokens} tokens in (${usage.prompt_tokens_details?.cached_tokens ?? 0} cached), ${n} out`);
  figures.textContent = out.join(" · ");
}

async function answer(say, signal) {
  const started = performance.now();
  let first = 0, last = 0, usage = null, finish = "";
  const reply = await fetch("/v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: byId("model").value, messages, stream: true, stream_options: { include_usage: true },
      max_tokens: Number(byId("limit").value), temperature: Number(byId("heat").value),
    }),
  });
  if (!reply.ok) throw new Error((await reply.json()).error.message);
  for await (const data of frames(reply.body)) {
    if (data === "[DONE]") return { finish, done: true };
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    const choice = chunk.choices[0];
    const delta = choice?.delta;
    if (delta?.content || delta?.reasoning_content) {
      last = performance.now();
      first ||= last;
      say.mind.textContent += delta.reasoning_content ?? "";
      say.text.textContent += delta.content ?? "";
      talk.scrollTop = talk.scrollHeight;
    }
    finish = choice?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
    tellFigures(started, first, last, usage);
  }
  throw new Error("the answer broke off");
}

form.addEventListener("submit", async (e) => {
  e.preventDefault();
  if (running || !words.value.trim()) return;
  messages.push({ role: "user", content: words.value });
  bubble("user").text.textContent = words.value;
  words.value = "";
  running = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  figures.textContent = "…";
  const say = bubble("assistant");
  let note = "";
  try {
    const { finish } = await answer(say, running.signal);
    if (finish === "length") note = "cut at the longest answer";
  } catch (err) {
    note = err.name === "AbortError" ? "stopped" : "failed: " + err.message;
  }
  if (say.text.textContent) messages.push({ role: "assistant", content: say.text.textContent });
  else messages.pop();
  if (note) figures.textContent = [figures.textContent.replace("…", ""), note].filter(Boolean).join(" · ");
  running = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  words.focus();
});

words.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("fresh").addEventListener("click", () => {
  running?.abort();
  messages.length = 0;
  talk.replaceChildren();
  figures.textContent = "";
  words.focus();
});
