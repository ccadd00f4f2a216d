// The playground: a stream of /v1/chat/completions by way of the control plane.
// What the model says is shown as text and never as markup.

const byId = (id) => document.getElementById(id);
const talk = byId("talk"), words = byId("words");
const messages = [];
let running = null;

const ms = (n) => (n < 1000 ? n.toFixed(0) + " ms" : (n / 1000).toFixed(2) + " s");
const usd = (nano) => "$" + (nano / 1e9).toFixed(9).replace(/(\.\d\d\d*?)0+$/, "$1");
const show = (id, text) => { byId("f-" + id).textContent = text || "–"; };
const state = (text) => { byId("say-state").textContent = text; };

function bubble(who, name) {
  const box = document.createElement("div");
  box.className = "said " + who;
  const parts = ["who-said", "mind", "text"].map((c) => {
    const span = document.createElement("span");
    span.className = c;
    box.append(span);
    return span;
  });
  parts[0].textContent = name;
  byId("nothing").hidden = true;
  talk.append(box);
  talk.scrollTop = talk.scrollHeight;
  return { box, mind: parts[1], text: parts[2] };
}

// body is the request as the form stands, with what has been said.
function body(said) {
  const out = { model: byId("model").value, messages: said, stream: true, stream_options: { include_usage: true } };
  const put = (id, name) => { if (byId(id).value !== "") out[name] = Number(byId(id).value); };
  put("limit", "max_tokens");
  put("heat", "temperature");
  put("top", "top_p");
  put("seed", "seed");
  const stops = byId("halt").value.split("\n").filter(Boolean).slice(0, 4);
  if (stops.length) out.stop = stops;
  if (byId("system").value.trim()) out.messages = [{ role: "system", content: byId("system").value }, ...said];
  return out;
}

// tellCurl shows the same request for a shell.
function tellCurl(said) {
  const curl = byId("curl");
  const quoted = JSON.stringify(body(said), null, 1).replaceAll("'", "'\\''");
  curl.textContent = `curl -N ${curl.dataset.base || "https://HOST:PORT/v1"}/chat/completions \\\n` +
    `  --cacert ca.pem \\\n  -H "authorization: Bearer $HEARTH_API_KEY" \\\n  -H 'content-type: application/json' \\\n  -d '${quoted}'`;
}

// frames yields the data of each event, however the bytes are cut.
async function* frames(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const p of parts) {
      const data = p.split(/\r?\n/).filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
      if (data) yield data;
    }
  }
}

function tellHead(reply) {
  const head = (name) => reply.headers.get(name) || "";
  show("contract", head("x-hearth-contract"));
  show("loss", head("x-hearth-loss").split(", ").filter(Boolean).join("\n") || "nothing lost");
  show("served", [head("x-hearth-route") && "route " + head("x-hearth-route"), head("x-hearth-upstream")].filter(Boolean).join(" → ") || "this box");
  show("trace", head("traceparent").split("-")[1]);
  const id = head("x-request-id");
  const link = document.createElement("a");
  link.href = "/ledger/" + encodeURIComponent(id);
  link.textContent = id;
  byId("f-request").replaceChildren(id ? link : "–");
  return id;
}

function tellFigures(t, usage, chunks) {
  if (t.first) show("first", ms(t.first - t.began));
  show("total", ms((t.ended || performance.now()) - t.began));
  const n = usage?.completion_tokens ?? chunks;
  if (n > 1 && t.last > t.first) show("speed", ((n - 1) / ((t.last - t.first) / 1000)).toFixed(1) + " tokens/s");
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0, mind = usage.completion_tokens_details?.reasoning_tokens ?? 0;
    show("tokens", `${usage.prompt_tokens} in${cached ? ` (${cached} cached)` : ""}, ${usage.completion_tokens} out${mind ? ` (${mind} reasoning)` : ""}`);
  } else {
    show("tokens", `about ${chunks} out so far`);
  }
}

// tellCost asks the ledger, which has the request once it is settled.
async function tellCost(id) {
  for (let i = 0; id && i < 5; i++) {
    await new Promise((r) => setTimeout(r, 200 * (i + 1)));
    const reply = await fetch("/api/ledger/" + encodeURIComponent(id));
    if (!reply.ok) continue;
    const detail = await reply.json(), row = detail.row ?? detail.Row ?? detail;
    if (!row.ended) continue;
    show("cost", typeof row.charge_nano === "number" && row.price?.version !== undefined ? usd(row.charge_nano) : "no price is known");
    return;
  }
}

async function answer(say, request, signal) {
  const t = { began: performance.now(), first: 0, last: 0, ended: 0 };
  let usage = null, finish = "", chunks = 0, whole = false;
  const reply = await fetch("/play/v1/chat/completions", {
    method: "POST", signal,
    headers: { "content-type": "application/json", "x-hearth-tenant": byId("tenant").value },
    body: JSON.stringify(request),
  });
  const id = tellHead(reply);
  try {
    if (!reply.ok) throw new Error((await reply.json().catch(() => null))?.error?.message ?? "status " + reply.status);
    for await (const data of frames(reply.body)) {
      if (data === "[DONE]") { whole = true; break; }
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices?.[0], delta = choice?.delta;
      if (delta?.content || delta?.reasoning_content || delta?.refusal) {
        t.last = performance.now();
        t.first ||= t.last;
        chunks++;
        const below = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
        say.mind.textContent += delta.reasoning_content ?? "";
        say.text.textContent += (delta.content ?? "") + (delta.refusal ?? "");
        if (below) talk.scrollTop = talk.scrollHeight;
      }
      finish = choice?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
      tellFigures(t, usage, chunks);
    }
    if (!whole) throw new Error("the answer broke off");
  } finally {
    t.ended = performance.now();
    tellFigures(t, usage, chunks);
    show("finish", { stop: "complete", length: "cut at the longest answer", content_filter: "withheld by a rule or the provider" }[finish] ?? finish);
    tellCost(id);
  }
}

byId("chat").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running || !words.value.trim()) return;
  messages.push({ role: "user", content: words.value });
  bubble("user", "You").text.textContent = words.value;
  words.value = "";
  const request = body(messages);
  tellCurl(messages);
  for (const id of ["tokens", "speed", "first", "total", "finish", "cost", "served", "contract", "loss", "request", "trace"]) show(id, "");
  running = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  state("Answering…");
  const say = bubble("assistant", byId("model").value);
  try {
    await answer(say, request, running.signal);
    state("Answered.");
  } catch (e) {
    state(e.name === "AbortError" ? "Stopped." : "Not answered: " + e.message);
    if (e.name !== "AbortError") say.box.classList.add("failed");
  }
  if (say.text.textContent) messages.push({ role: "assistant", content: say.text.textContent });
  else { messages.pop(); say.text.textContent = "(no answer)"; }
  running = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  words.focus();
});

words.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) byId("chat").requestSubmit();
});
for (const from of [words, byId("how")]) from.addEventListener("input", () => tellCurl(words.value ? [...messages, { role: "user", content: words.value }] : messages));
byId("how").addEventListener("submit", (e) => e.preventDefault());
byId("stop").addEventListener("click", () => running?.abort());
byId("fresh").addEventListener("click", () => {
  running?.abort();
  messages.length = 0;
  talk.replaceChildren();
  byId("nothing").hidden = false;
  state("");
  words.focus();
});
const wanted = new URLSearchParams(location.search).get("model");
if (wanted && [...byId("model").options].some((o) => o.value === wanted)) byId("model").value = wanted;
tellCurl([{ role: "user", content: "…" }]);
