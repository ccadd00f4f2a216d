// What every topic shares: the box under test, the browser, and the count of what
// held and what did not.
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { DATA, WORK, BROWSER } = process.env;
export const info = JSON.parse(readFileSync(join(DATA, "first-run.json")));
export const root = info.admin_url;
export const shots = process.env.SHOTS;
export const owner = { name: "ada", password: "quiet ember under the kettle" };
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const count = { held: 0, failed: 0 };
export const figures = {};
const opened = []; // pages, to show how they stand when a topic fails

// need counts; what has failed is told at once and does not end the run.
export function need(ok, what) {
  if (ok) return void count.held++;
  count.failed++;
  console.log("FAIL " + what);
}

// topic runs one part; an exception fails it and lets the others run.
export async function topic(name, run) {
  const began = Date.now();
  opened.length = 0;
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("not done after 15 minutes")), 900e3); });
  try {
    await Promise.race([run(), late]);
  } catch (error) {
    need(false, `${name}: ${error.stack.split("\n").slice(0, 14).join("\n")}`);
    for (const [i, page] of opened.filter((p) => !p.isClosed()).entries()) {
      const says = async (what) => (await page.textContent(what, { timeout: 500 }).catch(() => "nothing")).trim().slice(0, 300);
      console.log(`     ${page.url()} said: ${await says("[role=alert]")}; of being live: ${await says("#live-state")}`);
      await shot(page, `failed ${name} ${i}`).catch(() => {});
    }
  }
  clearTimeout(timer);
  console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(4)} s  ${name}`);
}

export function verdict() {
  for (const [name, value] of Object.entries(figures)) console.log(`${name}: ${value}`);
  console.log(`pages: ${count.held} held, ${count.failed} failed`);
  return count.failed ? 1 : 0;
}

// chromiumThat starts a browser whose user trusts the root certificate in the file
// given, or none.
export async function chromiumThat(rootFile) {
  const home = mkdtempSync(join(WORK, "home-"));
  const trust = join(home, ".pki/nssdb");
  mkdirSync(trust, { recursive: true });
  execFileSync("certutil", ["-N", "-d", "sql:" + trust, "--empty-password"]);
  if (rootFile) execFileSync("certutil", ["-A", "-d", "sql:" + trust, "-t", "C,,", "-n", "hearth", "-i", rootFile]);
  return chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"], env: { ...process.env, HOME: home, XDG_DATA_HOME: join(home, ".local/share") } });
}

// open gives a page of a new context, and notes what no page may do: errors on the
// console, breaches of its policy, requests to another origin.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  opened.push(page);
  const faults = [];
  page.on("console", (m) => m.type() === "error" && faults.push("console: " + m.text()));
  page.on("pageerror", (e) => faults.push("error: " + e.message));
  page.on("request", (r) => new URL(r.url()).origin !== root && !/^(data|blob|about|chrome-error):/.test(r.url()) && faults.push("foreign request: " + r.url()));
  if (options.javaScriptEnabled !== false) {
    await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI)));
  }
  return { context, page, faults };
}

// clean holds that there were none of those, and forgets them.
export function clean({ faults }, name) {
  need(faults.length === 0, `${name}: ${faults.splice(0).join("; ")}`);
}

// signIn goes in by name and password.
export async function signIn(page, { name, password }) {
  await page.goto(root + "/signin");
  await page.fill("#name", name);
  await page.fill("#password", password);
  await Promise.all([page.waitForURL(root + "/"), page.click("button.main")]);
}

// inside is a page of somebody who is signed in.
export async function inside(browser, who, options = {}) {
  const w = await open(browser, { ...options, storageState: who.state });
  return w;
}

// api asks the admin API as the page does, with the cookie of its session.
export async function api(page, method, path, body) {
  return page.evaluate(async ([method, path, body]) => {
    const reply = await fetch("/api" + path, { method, headers: { "content-type": "application/json", accept: "application/json" }, body: body && JSON.stringify(body) });
    const value = await reply.json();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(value)}`);
    return value;
  }, [method, path, body]);
}

// accessible holds that axe finds nothing, by all of its rules or those of contrast.
export async function accessible(page, name, whole = true) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const violations = await page.evaluate(async (whole) => {
    const { violations } = await axe.run({ runOnly: whole ? ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] : { type: "rule", values: ["color-contrast"] }, resultTypes: ["violations"] });
    return violations.map((v) => `${v.id} (${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" ")})`);
  }, whole);
  need(violations.length === 0, `${name}: ${violations.join(", ")}`);
}

// narrow holds that nothing makes the page scroll sideways.
export async function narrow(page, name) {
  const wide = await page.evaluate(() => {
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over <= 0) return "";
    const clipped = (e) => { for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
    const who = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !clipped(e)).slice(-2);
    return `${over} px of sideways scroll, by ${who.map((e) => e.outerHTML.slice(0, 120)).join(" ")}`;
  });
  need(wide === "", `${name}: ${wide}`);
}

export async function shot(page, name) {
  if (shots) await page.screenshot({ path: join(shots, name.replaceAll(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "") + ".png"), fullPage: true });
}

// chat asks the data plane as an SDK does.
export const chat = (secret, body) => fetch(info.base_url + "/v1/chat/completions", {
  method: "POST", headers: { authorization: "Bearer " + secret, "content-type": "application/json" },
  body: JSON.stringify({ model: "words", max_tokens: 20, messages: [{ role: "user", content: "hello" }], ...body }),
});

// until waits for something to become true; seen tells what there was instead.
export async function until(what, test, ms = 20000, seen) {
  for (const end = Date.now() + ms; ;) {
    const got = await test();
    if (got) return got;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}${seen ? `: there was ${await seen()}` : ""}`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}
