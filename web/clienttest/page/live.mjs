// What changes by itself: figures while requests come, the health of a worker that
// dies, and the keyboard that must not lose its place.
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

export async function live(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  await page.goto(root + "/");
  await page.evaluate(() => { window.loadedOnce = true; });
  await page.waitForFunction(() => document.getElementById("live-state").textContent === "live");
  const total = () => page.evaluate(() => Number(/([\d,.  ]+) since the start/.exec(document.querySelector("section dl.tiles").textContent)[1].replace(/\D/g, "")));
  const before = await total();
  need((await chat(owner.key)).status === 200, "the request is refused");
  await until("the number of requests", async () => (await total()) > before);

  // The keyboard keeps its place; what changed is caught up with afterwards.
  await page.focus("section a[href*='range']");
  const here = await total();
  need((await chat(owner.key)).status === 200, "the request is refused");
  await page.waitForTimeout(5000);
  need(await page.evaluate(() => document.activeElement.matches("section a[href*='range']")), "a live update takes the keyboard away");
  await page.evaluate(() => document.activeElement.blur());
  await chat(owner.key);
  await until("the number of requests after the keyboard left", async () => (await total()) > here);

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
