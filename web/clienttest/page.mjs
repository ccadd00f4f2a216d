// The pages in a real browser: no fault of access by axe, no complaint of the
// policy, no request to a foreign origin, no sideways scroll at 360 px, in light
// and dark, signed out and in; then the set-up link, the chat and the keyboard.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { BASE_URL, SETUP_TOKEN, BROWSER, SHOTS } = process.env;
const root = BASE_URL.replace(/\/v1$/, "").replace("127.0.0.1", "localhost");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let done = 0, failed = 0;

function need(ok, what) {
  if (ok) return void done++;
  failed++;
  console.log("FAIL " + what);
}

const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });

// watch notes everything that a page should not do.
async function watch(context) {
  const page = await context.newPage();
  const faults = [];
  page.on("console", (m) => m.type() === "error" && faults.push("console: " + m.text()));
  page.on("pageerror", (e) => faults.push("error: " + e.message));
  page.on("request", (r) => !r.url().startsWith(root) && faults.push("foreign request: " + r.url()));
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective)));
  return { page, faults };
}

async function inspect(page, faults, name) {
  await page.waitForLoadState("load");
  await page.waitForTimeout(300);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }));
  need(violations.length === 0, `${name}: ${violations.map((v) => `${v.id} (${v.nodes[0].html.slice(0, 90)})`).join(", ")}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  need(wide <= 0, `${name}: ${wide} px of sideways scroll`);
  need(faults.length === 0, `${name}: ${faults.join("; ")}`);
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name.replaceAll(" ", "-")}.png`, fullPage: true });
}

let state;
for (const colorScheme of ["light", "dark"]) {
  for (const width of [360, 1280]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 740 }, ignoreHTTPSErrors: true, storageState: undefined });
    const { page, faults } = await watch(context);
    await page.goto(root + "/");
    await inspect(page, faults, `signed out ${colorScheme} ${width}`);
    await context.close();

    const inside = await browser.newContext({ colorScheme, viewport: { width, height: 740 }, ignoreHTTPSErrors: true, storageState: state });
    const w = await watch(inside);
    if (state) {
      await w.page.goto(root + "/");
    } else {
      await w.page.goto(`${root}/setup#${SETUP_TOKEN}`);
      await w.page.waitForURL(root + "/");
      state = await inside.storageState();
    }
    await w.page.waitForFunction(() => document.getElementById("live").textContent === "live");
    await inspect(w.page, w.faults, `signed in ${colorScheme} ${width}`);
    if (colorScheme === "light") await talk(w.page, w.faults, width);
    await inside.close();
  }
}

// talk uses the chat by keyboard alone.
async function talk(page, faults, width) {
  await page.locator("#words").focus();
  await page.keyboard.type("good <b>morning</b> 🙂");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.getElementById("stop").disabled && /tokens in/.test(document.getElementById("figures").textContent), null, { timeout: 60000 });
  const said = await page.locator(".said.assistant span:last-child").textContent();
  need(said.length > 0, `chat ${width}: no answer`);
  if (process.env.SCRIPTED) need(said === "You said: good <b>morning</b> 🙂", `chat ${width}: got ${said}`);
  need((await page.locator("#talk b").count()) === 0, `chat ${width}: the answer became markup`);
  need(/first token after .*tokens in/.test(await page.locator("#figures").textContent()), `chat ${width}: figures ${await page.locator("#figures").textContent()}`);
  await inspect(page, faults, `chat ${width}`);
  // Every control is reached by Tab.
  const reached = new Set();
  await page.evaluate(() => document.body.focus());
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim()));
  }
  for (const id of ["Skip to the chat", "Sign out", "talk", "words", "model", "limit", "heat", "send", "fresh"]) need(reached.has(id), `keyboard ${width}: ${id} is not reached`);
}

// Scripts off: the form still signs in, the figures are there.
const plain = await browser.newContext({ javaScriptEnabled: false, ignoreHTTPSErrors: true });
const page = await plain.newPage();
await page.goto(root + "/");
await page.fill("#secret", process.env.API_KEY);
await page.click("button[type=submit]");
await page.waitForSelector("#models article");
need(await page.locator("#models article").count(), "scripts off: no models");
await page.click("header button");
await page.waitForSelector("#secret");
need(true, "signed out");
await browser.close();
console.log(`page: ${done} held, ${failed} failed`);
process.exit(failed ? 1 : 0);
