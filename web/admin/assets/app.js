// What every page does with a script: parts that change by themselves, tables
// that filter, things to copy. Everything else on the pages works without.

// htmx parses HTML that our own server has rendered and escaped; nothing may
// become a script or the address of one, since this policy makes neither.
if (window.trustedTypes) trustedTypes.createPolicy("default", { createHTML: (html) => html });

document.addEventListener("DOMContentLoaded", () => {
  htmx.config.allowEval = false;
  htmx.config.selfRequestsOnly = true;
});

// A part is not swapped while somebody works in it: a text is selected there, or
// the keyboard is there.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const part = event.target;
  const selection = document.getSelection();
  const selecting = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  const open = part.querySelector("details[open]");
  if (selecting || open || (part.contains(document.activeElement) && document.activeElement !== part)) event.preventDefault();
});

// Loss of the live stream is said, not hidden.
const live = () => document.getElementById("live-state");
document.addEventListener("htmx:sseOpen", () => { if (live()) live().textContent = "live"; });
document.addEventListener("htmx:sseError", () => { if (live()) live().textContent = "no longer live: reload the page"; });

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
