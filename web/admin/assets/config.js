// Faults of the text are told while it is written.
const text = document.getElementById("text");
const verdict = document.getElementById("verdict");
let timer = 0, asked = 0;

function line(words, className) {
  const p = document.createElement("p");
  p.className = className;
  p.textContent = words;
  return p;
}

async function check() {
  const mine = ++asked;
  const reply = await fetch("/api/config/check", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text: text.value }) });
  if (mine !== asked) return; // a later one is on its way
  const found = await reply.json();
  if (!reply.ok) return verdict.replaceChildren(line("✗ " + found.error.message, "bad"));
  const where = (f) => (f.line ? "line " + f.line + ", " : "") + (f.key ? f.key + ": " : "") + f.message;
  if (found.faults.length) return verdict.replaceChildren(...found.faults.slice(0, 20).map((f) => line("✗ " + where(f), "bad")));
  const n = found.changed.length;
  verdict.replaceChildren(line("✓ no faults, " + (n === 1 ? "1 key changes" : n + " keys change"), "good"), ...found.doubts.map((f) => line("? " + where(f), "quiet")));
}

text?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => check().catch(() => verdict.replaceChildren(line("The server cannot be asked.", "bad"))), 400);
});
// Tab indents; Escape first gives the keyboard back to the page, which is said.
let leave = false;
if (text) document.getElementById("text-hint").hidden = false;
text?.addEventListener("keydown", (event) => {
  if (event.key === "Escape") leave = true;
  else if (event.key === "Tab" && !leave && !event.shiftKey) {
    event.preventDefault();
    text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
    text.dispatchEvent(new Event("input"));
  } else if (event.key !== "Tab") leave = false;
});
