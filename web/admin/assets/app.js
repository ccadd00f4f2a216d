// What every page does with a script: parts that change by themselves, tables
// that filter, things to copy. Everything else on the pages works without.

// htmx parses HTML that our own server has rendered and escaped; nothing may
// become a script or the address of one, since this policy makes neither.
if (window.trustedTypes) trustedTypes.createPolicy("default", { createHTML: (html) => html });

document.addEventListener("DOMContentLoaded", () => {
  htmx.config.allowEval = false;
  htmx.config.selfRequestsOnly = true;
});

// A part is not swapped while somebody works in it: a text is selected there, the
// keyboard is there, something is open or being pressed. The newest of what was
// refused meanwhile is kept and said again once they have left, so that a part
// does not wait for its next change to be true.
const refused = new Map(); // part -> the newest message that came while it was in use
const inUse = (part) => {
  const selection = document.getSelection();
  return (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) || part.querySelector("details[open]") ||
    part.matches(":active") || (part.contains(document.activeElement) && document.activeElement !== part);
};
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const part = event.target;
  if (!inUse(part)) return void refused.delete(part);
  event.preventDefault();
  refused.set(part, event.detail);
});
const catchUp = () => {
  for (const [part, { target, type, data }] of refused) {
    if (!inUse(part)) target.dispatchEvent(new MessageEvent(type, { data }));
  }
};
// Later, when the keyboard is where it goes and a click has done what it does.
for (const left of ["focusout", "selectionchange", "toggle", "pointerup", "pointercancel"]) {
  document.addEventListener(left, () => { if (refused.size) setTimeout(catchUp); }, true);
}

// Loss of the live stream is said, not hidden. It comes back by itself, and begins
// with the part as it is then.
const liveState = (text) => {
  const place = document.getElementById("live-state");
  if (place && place.textContent !== text) place.textContent = text;
};
document.addEventListener("htmx:sseOpen", () => liveState("live"));
document.addEventListener("htmx:sseError", () => liveState("no longer live: trying again, or reload the page"));

// <button data-copy="ID"> puts the text of an element on the clipboard.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    button.textContent = "Copied";
  } catch {
    document.getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
});

// <input data-filter="ID"> shows those rows of a table, or parts of anything else,
// that have the text.
document.addEventListener("input", (event) => {
  const field = event.target.closest("input[data-filter]");
  if (!field) return;
  const want = field.value.toLowerCase();
  const list = document.getElementById(field.dataset.filter);
  for (const row of list.tBodies?.[0].rows ?? list.children) row.hidden = !row.textContent.toLowerCase().includes(want);
});

// The menu on a narrow screen is closed at first, and closes with Escape.
const menuAtFirst = document.getElementById("menu");
if (menuAtFirst && matchMedia("(max-width: 60rem)").matches) menuAtFirst.open = false;
document.addEventListener("keydown", (event) => {
  const menu = document.getElementById("menu");
  if (event.key === "Escape" && menu?.open && matchMedia("(max-width: 60rem)").matches) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
