// What changes by itself: figures while requests come, the health of a worker that
// dies, and the place of who works there, which must not be lost.
import { readdirSync, readFileSync } from "node:fs";
import { chat, clean, inside, need, owner, root, shot, until } from "./box.mjs";

// worker is the process of the model, a child of the server.
function worker() {
  for (const pid of readdirSync("/proc").filter((n) => /^\d+$/.test(n))) {
    try {
      const ppid = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[1];
      if (ppid === process.env.SERVER_PID && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("engine-worker")) return Number(pid);
    } catch {} // it has ended meanwhile
  }
  return 0;
}

// counted is the number of requests that a text of the overview tells. The figure
// before it, requests a second, goes up and down, and stands in the same cell.
const counted = `(text) => Number(/>([\\d\u202f]+) since the start</.exec(text)?.[1].replace(/\\D/g, ""))`;

export async function live(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  await page.addInitScript(`window.counted = ${counted}; window.came = []; window.shown = 0;
    document.addEventListener("htmx:sseBeforeMessage", (event) => { window.source = event.detail.target; came.push(counted(event.detail.data)); });
    document.addEventListener("htmx:sseMessage", () => shown++);`);
  const total = () => page.evaluate(() => counted(document.querySelector("section dl.tiles").innerHTML));
  const now = () => page.evaluate(() => JSON.stringify({ total: counted(document.querySelector("section dl.tiles").innerHTML), came: came.slice(-20), shown,
    state: document.getElementById("live-state").textContent, stream: window.source?.readyState, focus: document.activeElement.outerHTML.slice(0, 80), hidden: document.hidden }));
  const isLive = () => page.waitForFunction(() => document.getElementById("live-state").textContent === "live");
  const ask = async () => need((await chat(owner.key)).status === 200, "the request is refused");
  await page.goto(root + "/");
  await page.evaluate(() => { window.loadedOnce = true; });
  await isLive();
  const before = await total();
  await ask();
  await until("the number of requests", async () => (await total()) > before, 20000, now);

  // Who works in the part keeps their place. The newest of what came meanwhile is
  // shown when they have left, also where nothing comes any more.
  const link = "section a[href*='range']";
  const at = (does) => () => page.$eval(link, does);
  for (const [how, enter, stays, leave] of [
    ["the keyboard", () => page.focus(link), (e) => document.activeElement === e, () => page.focus("#main")],
    ["a selection", at((e) => getSelection().selectAllChildren(e)), (e) => getSelection().toString() === e.textContent, at(() => getSelection().removeAllRanges())],
    ["something open", at((e) => { const d = document.createElement("details"); d.append("more"); d.open = true; e.before(d); }),
      (e) => e.previousSibling.open, at((e) => { e.previousSibling.open = false; })],
    ["a press", async () => { await page.hover("section h2"); await page.mouse.down(); }, (e) => e.parentElement.matches(":active"), () => page.mouse.up()],
  ]) {
    await page.goto(root + "/");
    await isLive();
    const here = await total();
    await enter();
    const kept = await page.$(link);
    for (const more of [1, 2]) {
      await ask();
      await until(`news of the requests while there is ${how}`, () => page.evaluate((want) => came.at(-1) === want, here + more), 20000, now);
    }
    need(await kept.evaluate((e) => e.isConnected) && await kept.evaluate(stays) && (await total()) === here, `a live update takes ${how} away`);
    await page.evaluate(() => { source.close(); shown = 0; });
    await leave();
    await until(`what came while there was ${how}`, async () => (await total()) === here + 2, 20000, now);
    need(await page.evaluate(() => shown) === 1, `after ${how} there is more than one update`);
  }

  // A stream that ends, or is refused, is said to have; it comes back and brings
  // what had changed.
  const ends = [{ status: 200, contentType: "text/event-stream", body: ": nothing\n\n" }, { status: 503, body: "" }];
  await page.route("**/live?*", (route) => ends.length ? route.fulfill(ends.shift()) : route.continue());
  await page.goto(root + "/");
  const here = await total();
  await page.waitForFunction(() => document.getElementById("live-state").textContent.startsWith("no longer live"));
  await ask();
  await until("a stream that comes back", async () => !ends.length && (await total()) === here + 1, 20000, now);
  need(await page.evaluate(() => document.getElementById("live-state").textContent === "live"), "a stream that is back is not told");
  await page.unroute("**/live?*");
  const others = w.faults.splice(0).filter((f) => !/503|\[object Event\]/.test(f)); // the loss stands on the console
  need(others.length === 0, `while the stream was away: ${others.join("; ")}`);
  await page.evaluate(() => { window.loadedOnce = true; });

  // One that dies is there again sooner than the page is told; so each dies until it is.
  const told = page.waitForSelector(".status:has-text('Not ready')", { timeout: 20000 }).then(() => true, () => false);
  let seen;
  told.then((yes) => { seen = yes; });
  while (seen === undefined) {
    const pid = worker();
    if (pid) process.kill(pid, "SIGKILL");
    await new Promise((wake) => setTimeout(wake, 50));
  }
  need(seen, "the page does not tell that the worker has died");
  if (seen) await shot(page, "overview not ready");
  await page.waitForSelector(".status:has-text('✓ Ready')", { timeout: 60000 });
  need(await page.evaluate(() => window.loadedOnce === true), "the page was loaded anew");
  need((await chat(owner.key, { model: "hearth-tiny" })).status === 200, "the model does not answer after its worker died");
  clean(w, "live");
  await w.context.close();
}
