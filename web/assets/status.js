// Keeps the figures of the status page fresh. The server has rendered them once
// already; this module draws the same from the JSON that /ui/events sends.
const byId = (id) => document.getElementById(id);

function el(name, props, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(props ?? {})) {
    if (k === "class") e.className = v;
    else e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== null));
  return e;
}

function bar(first, second) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  for (const [k, v] of [["class", "bar"], ["viewBox", "0 0 100 10"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) svg.setAttribute(k, v);
  let x = 0;
  for (const [name, share] of [first, second]) {
    const r = document.createElementNS(ns, "rect");
    for (const [k, v] of [["class", name], ["height", 10], ["x", x], ["width", share]]) r.setAttribute(k, v);
    svg.append(r);
    x += share;
  }
  return svg;
}

const pct = (part, whole) => (whole > 0 ? Math.max(0, Math.min(100, Math.floor((100 * part) / whole))) : 0);

export function usd(nano) {
  if (nano === 0) return "$0";
  if (Math.abs(nano) < 1e7) return "$" + (nano / 1e9).toFixed(9).replace(/0+$/, "");
  return "$" + (nano / 1e9).toFixed(Math.abs(nano) < 1e10 ? 4 : 2);
}

export function ms(f) {
  if (f >= 10000) return (f / 1000).toFixed(1) + " s";
  return f.toFixed(f >= 100 ? 0 : 1) + " ms";
}

function units(n, table) {
  for (const [size, name] of table) if (n >= size) return (n / size).toFixed(1) + " " + name;
  return null;
}
const bytes = (n) => units(n, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) ?? n + " B";
const count = (n) => units(n, [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) ?? String(n);

function clock(s) {
  const f = (n) => Math.floor(n);
  if (s >= 86400) return `${f(s / 86400)} d ${f((s % 86400) / 3600)} h`;
  if (s >= 3600) return `${f(s / 3600)} h ${f((s % 3600) / 60)} min`;
  if (s >= 60) return `${f(s / 60)} min ${s % 60} s`;
  return `${s} s`;
}

const state = (ready, reason) => (ready ? [el("span", { class: "good" }, "✓ ready")] : [el("span", { class: "bad" }, "✗ not ready"), " " + reason]);

function modelCard(m) {
  const facts = el("dl", { class: "facts" });
  const fact = (name, ...value) => facts.append(el("dt", null, name), el("dd", null, ...value));
  fact("Running", String(m.running));
  fact("Waiting", String(m.waiting));
  const used = pct(m.blocks_used, m.blocks_total);
  fact("KV blocks", `${m.blocks_used} used, ${m.blocks_cached} cached, of ${m.blocks_total}`, bar(["used", used], ["cached", pct(m.blocks_cached, m.blocks_total)]));
  fact("Prefix hits", m.prefix_pct + " %");
  fact("Tokens", `${m.prompt_tokens} in, ${m.output_tokens} out`);
  fact("Preemptions", String(m.preemptions));
  fact("Restarts", String(m.restarts));
  const about = [m.architecture, m.quantization, count(m.parameters) + " parameters", bytes(m.file_bytes), "context " + m.context, m.device].join(" · ");
  return el("article", { class: "card", "data-model": m.name }, el("h3", null, m.name), el("p", null, ...state(m.ready, m.reason)), el("p", { class: "quiet" }, about), facts);
}

function latencyRow(l) {
  const cells = l.count ? [ms(l.p50_ms), ms(l.p95_ms), ms(l.p99_ms)] : ["–", "–", "–"];
  return el("tr", null, el("th", { scope: "row" }, l.title), ...[...cells, String(l.count)].map((c) => el("td", null, c)));
}

function spendRow(b) {
  const spent = pct(b.spent_nano, b.cap_nano);
  return el("tr", null, el("th", { scope: "row" }, b.tenant), el("td", null, `${b.budget} (${b.window})`), el("td", null, usd(b.spent_nano)), el("td", null, usd(b.held_nano)), el("td", null, usd(b.cap_nano)),
    el("td", null, bar(["spent", spent], ["held", pct(b.held_nano, b.cap_nano)]), spent + " %"));
}

// row is a line of a table: its heading, then its cells, texts or elements.
const row = (head, ...cells) => el("tr", null, el("th", { scope: "row" }, head), ...cells.map((c) => el("td", null, c)));
const mark = (good, text) => el("span", { class: good ? "good" : "bad" }, (good ? "✓ " : "✗ ") + text);
const none = (columns, text) => [el("tr", null, el("td", { colspan: columns, class: "quiet" }, text))];

function upstreamRow(u) {
  const n = [u.open, u.waiting, u.succeeded, u.failed, u.failures].map(String);
  return row(u.name, u.model || "–", mark(u.good, u.state), ...n, u.last_failure || "–", String(u.fallbacks), String(u.retries), u.routes || "–");
}

function recentRow(r) {
  const outcome = document.createDocumentFragment();
  outcome.append(mark(r.good, r.outcome), r.error ? " " + r.error : "");
  return row(el("time", { datetime: r.started }, r.clock), r.tenant, r.model, r.upstream || "–", String(r.attempts), outcome, usd(r.charge_nano), r.lost || "–", r.id);
}

function fill(id, rows, columns, empty) {
  byId(id)?.replaceChildren(...(rows.length ? rows : none(columns, empty)));
}

function tile(name, text) {
  const e = document.querySelector(`[data-tile="${name}"]`);
  if (e) e.textContent = text;
}

function options(names) {
  const select = byId("model");
  if (names.join("\n") === [...select.options].map((o) => o.value).join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((n) => el("option", { value: n }, n)));
  if (names.includes(chosen)) select.value = chosen;
}

// Screen readers are told in a sentence, at most every ten seconds and only
// when the sentence has changed.
let told = 0;
let sentence = "";
function tell(s) {
  const sum = (k) => s.models.reduce((n, m) => n + m[k], 0);
  const now = `${s.ready ? "Ready" : "Not ready: " + s.reason}. ${sum("running")} running, ${sum("waiting")} waiting.`;
  if (now === sentence || Date.now() - told < 10000) return;
  told = Date.now();
  sentence = now;
  byId("said").textContent = now;
}

function draw(s) {
  byId("state").replaceChildren(...state(s.ready, s.reason));
  tile("open", String(s.open));
  tile("uptime", clock(s.uptime_s));
  tile("holds", String(s.open_holds));
  tile("held", usd(s.held_nano));
  tile("ledger", String(s.ledger));
  byId("models").replaceChildren(...(s.models.length ? s.models.map(modelCard) : [el("p", { class: "quiet" }, "No model is loaded.")]));
  byId("latency").replaceChildren(...s.latency.map(latencyRow));
  fill("upstreams", s.upstreams.map(upstreamRow), "12", "No upstream is configured.");
  fill("recent", s.recent.map(recentRow), "9", "No request yet.");
  fill("spend", s.spend.map(spendRow), "6", "No budgets.");
  options(s.choices);
  tell(s);
}

const live = byId("live");
const events = new EventSource("/ui/events");
events.addEventListener("status", (e) => {
  live.textContent = "live";
  draw(JSON.parse(e.data));
});
events.addEventListener("signout", () => {
  events.close();
  location.replace("/");
});
events.onerror = () => {
  live.textContent = "connection lost, trying again…";
};
