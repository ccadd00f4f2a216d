// Every page, for every role, in light and dark, wide and narrow. Which pages there
// are is read from the menu and from the table of who may do what.
import { readFileSync } from "node:fs";
import { accessible, api, clean, figures, inside, narrow, need, open, owner, root, shot } from "./box.mjs";
import { people } from "./signin.mjs";

const notPages = /^\/(api|assets|favicon\.ico|get|live|signin|setup$)/;

// table is what the table of routes says that a role may open.
function table(role) {
  const out = [];
  for (const line of readFileSync(process.env.ACCESS, "utf8").split("\n")) {
    const [method, path, ...roles] = line.trim().split(/\s+/);
    if (method === "GET" && !notPages.test(path)) out.push({ path: path.replace("/{$}", "/"), allowed: roles.includes(role) });
  }
  return out;
}

// example finds a page that path has a placeholder for, by a link to it.
async function example(page, path) {
  const base = path.slice(0, path.indexOf("{"));
  await page.goto(root + base.slice(0, -1));
  const all = await page.locator(`main a[href^="${base}"]`).evaluateAll((list) => list.map((a) => a.getAttribute("href").replace(/[?#].*/, "")));
  return all.at(-1);
}

// material makes something to show on pages that would be empty.
async function material(page) {
  await page.goto(root + "/");
  await api(page, "POST", "/evidence", { kind: "quality", candidate: "alpha/up", report: "Nine of ten answers are as they should be.", passed: true, note: "a trial" });
}

export async function everyPage(browser) {
  const w = await inside(browser, owner);
  await material(w.page);
  const examples = {};
  for (const { path } of table("owner")) {
    if (!path.includes("{")) continue;
    examples[path] = await example(w.page, path);
    need(examples[path], `no page leads to ${path}`);
  }
  clean(w, "looking for examples");
  await w.context.close();
  const pairs = [["owner"], ["operator", "auditor", "tenant-admin"]]; // side by side
  await Promise.all(pairs.map(async (roles) => { for (const role of roles) await sweep(browser, role, examples); }));
}

async function sweep(browser, role, examples) {
  const w = await inside(browser, people[role]);
  const { page } = w;
  await page.goto(root + "/");
  const menu = await page.locator("nav a").evaluateAll((list) => list.map((a) => a.getAttribute("href")));
  const rows = table(role);
  for (const at of menu) need(rows.some((r) => r.path === at && r.allowed), `${role}: the menu has ${at}, which the table of routes has not for them`);
  for (const { path, allowed } of rows) {
    const at = path.includes("{") ? examples[path] : path;
    if (!at) continue;
    if (!allowed) {
      const reply = await page.goto(root + at);
      need(reply.status() === 403 || reply.status() === 404, `${role}: ${path} is answered ${reply.status()}`);
      w.faults.length = 0; // the refusal stands on the console
      continue;
    }
    await look(w, role, path, at);
  }
  await w.context.close();
}

// look opens a page once and turns it every way. Colours do not depend on the
// width, nor anything else on colours, so of four ways two are looked at whole and
// the rest for contrast; what other roles see is what the owner sees with parts
// left out.
async function look(w, role, path, at) {
  const { page } = w;
  const name = `${path === "/" ? "overview" : path.slice(1)} ${role}`;
  const reply = await page.goto(root + at);
  // Of one tenant's things a tenant admin may be shown another's example.
  if (role === "tenant-admin" && path.includes("{") && reply.status() === 404) return void (w.faults.length = 0);
  if (!need200(reply, name)) return void (w.faults.length = 0);
  for (const [colorScheme, width] of [["light", 1280], ["dark", 1280], ["dark", 360], ["light", 360]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
    await page.evaluate((open) => { document.getElementById("menu").open = open; }, width !== 360);
    const whole = (colorScheme === "light") === (width === 1280) && (role === "owner" || width === 1280);
    if (whole || role === "owner" || colorScheme === "dark" && width === 360) await accessible(page, `${name} ${colorScheme} ${width}`, whole);
    await narrow(page, `${name} ${colorScheme} ${width}`);
    if (role === "owner" && !(colorScheme === "dark" && width === 360)) await shot(page, `${name} ${colorScheme} ${width}`);
  }
  await page.setViewportSize({ width: 320, height: 256 }); // 1280 × 1024 at 400 %
  await narrow(page, `${name} at 400 %`);
  await page.setViewportSize({ width: 1280, height: 900 });
  clean(w, name);
}

function need200(reply, name) {
  need(reply.status() === 200, `${name}: answered ${reply.status()}`);
  return reply.status() === 200;
}

// weight: what a page costs the first time, and when its first words are there.
export async function weight(browser) {
  let most = 0, heaviest = "", bytes = 0;
  const paints = [];
  const w = await inside(browser, owner);
  await w.page.goto(root + "/");
  const cdp = await w.context.newCDPSession(w.page);
  await cdp.send("Network.enable");
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  cdp.on("Network.loadingFinished", (e) => { bytes += e.encodedDataLength; });
  for (const { path, allowed } of table("owner")) {
    if (!allowed || path.includes("{")) continue;
    bytes = 0;
    await w.page.goto(root + path);
    await w.page.waitForTimeout(300);
    const paint = await w.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    if (paint) paints.push(paint);
    if (bytes > most) [most, heaviest] = [bytes, path];
    need(bytes > 0 && bytes <= 200e3, `${path} weighs ${bytes} bytes`);
  }
  await w.context.close();
  paints.sort((a, b) => a - b);
  const median = paints[paints.length >> 1];
  need(median <= 1000, `first paint after ${median} ms`);
  figures["heaviest page"] = `${heaviest}, ${(most / 1000).toFixed(1)} kB with everything`;
  figures["first contentful paint"] = `median ${median?.toFixed(0)} ms, best ${paints[0]?.toFixed(0)} ms, worst ${paints.at(-1)?.toFixed(0)} ms`;
}

// keyboard walks through pages by Tab: every control is reached and is seen to have
// the keyboard.
export async function keyboard(browser) {
  for (const [path, width] of [["/", 1280], ["/models", 1280], ["/playground", 1280], ["/keys", 1280], ["/tenants", 360], ["/config", 1280], ["/certificates", 1280], ["/me", 1280], ["/ledger", 360]]) {
    const { page, context } = await open(browser, { storageState: owner.state, viewport: { width, height: 900 } });
    await page.route("**/live?**", (r) => r.abort()); // what is marked must stay
    await page.goto(root + path);
    await walk(page, `${path} ${width}`);
    await context.close();
  }
}

async function walk(page, name) {
  const all = await page.evaluate(() => {
    const list = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
      .filter((e) => !e.disabled && e.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }));
    list.forEach((e, i) => { e.dataset.stop = i; });
    return list.map((e) => e.outerHTML.slice(0, 100));
  });
  const reached = new Set();
  const unseen = [];
  let stood = "";
  for (let i = 0; i < all.length * 2 + 20 && reached.size < all.length; i++) {
    if (stood === "TEXTAREA") await page.keyboard.press("Escape"); // lets Tab leave the editor
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
      return { stop: e.dataset.stop, tag: e.tagName, html: e.outerHTML.slice(0, 100), seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.bottom > 0 && box.top < innerHeight };
    });
    stood = at.tag;
    if (at.stop !== undefined) reached.add(Number(at.stop));
    if (!at.seen && at.tag !== "BODY") unseen.push(at.html);
  }
  const missed = all.filter((_, i) => !reached.has(i));
  need(missed.length === 0, `${name}: the keyboard does not reach ${missed.length} of ${all.length}: ${missed.slice(0, 4).join(" ")}`);
  need(unseen.length === 0, `${name}: the keyboard is not seen at ${[...new Set(unseen)].slice(0, 4).join(" ")}`);
}
