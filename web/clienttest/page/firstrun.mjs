// From the link on the console to the first answer.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, chat, chromiumThat, clean, info, narrow, need, open, owner, root, shot } from "./box.mjs";

const step = async (w, name) => {
  await accessible(w.page, name);
  await w.page.setViewportSize({ width: 360, height: 740 });
  await narrow(w.page, name + " 360");
  await w.page.setViewportSize({ width: 1280, height: 900 });
  clean(w, name);
  await shot(w.page, name);
};

export async function firstRun(browser) {
  const w = await open(browser, { acceptDownloads: true });
  const { page } = w;
  await page.goto(root + "/keys");
  need(page.url() === root + "/setup", `before there is an owner a page led to ${page.url()}`);
  await step(w, "setup 0 token");

  await page.goto(info.setup_url);
  await page.waitForSelector("#password");
  need(!page.url().includes("#"), `the token stays in the address: ${page.url()}`);
  await step(w, "setup 1 you");
  await page.fill("#name", owner.name);
  await page.fill("#password", owner.password);
  await page.fill("#repeated", owner.password + "!");
  await page.click("#enrol button[type=submit]");
  await page.waitForSelector("[role=alert]");
  need(/not the same/.test(await page.textContent("[role=alert]")), "two different passwords are not told");
  w.faults.length = 0; // the refusal stands on the console
  await page.fill("#password", owner.password);
  await page.fill("#repeated", owner.password);
  await page.click("#enrol button[type=submit]");
  await page.waitForURL(root + "/setup/certificate");

  const [download] = await Promise.all([page.waitForEvent("download"), page.click("a[download]:has-text('PEM')")]);
  const file = join(process.env.WORK, "downloaded.pem");
  await download.saveAs(file);
  need(readFileSync(file, "utf8").trim() === readFileSync(info.ca_file, "utf8").trim(), "the root that the page gives is not the one on the disk");
  await step(w, "setup 2 certificate");
  await trusted(file);

  await page.click("a.main");
  await page.waitForURL(root + "/setup/model");
  need((await page.locator(".card:has-text('hearth-tiny') .good").count()) === 1, "the built-in model is not told as ready");
  await step(w, "setup 3 model");
  await page.click("a.main");
  await page.waitForURL(root + "/setup/tenant");
  await step(w, "setup 4 tenant");
  await page.fill("#t-name", "team");
  await page.fill("#t-cap", "5.00");
  await page.click("button:has-text('Add the tenant')");
  await page.waitForSelector("h3:has-text('team')");
  await page.selectOption("#k-tenant", "team");
  await page.fill("#k-name", "laptop");
  await page.click("button:has-text('Make the key')");
  const secret = (await page.textContent("#the-secret")).trim();
  await step(w, "setup 5 key");
  for (const id of ["s-curl", "s-openai", "s-anthropic"]) {
    const text = await page.textContent("#" + id);
    need(text.includes(secret) && text.includes(info.base_url), `${id} has not the key and the address: ${text}`);
  }
  const answer = await chat(secret, { model: "hearth-tiny" });
  need(answer.status === 200, `the first key is answered ${answer.status} ${await answer.text()}`);
  await page.click("a.button:has-text('go on')");
  await page.waitForURL(root + "/");
  await page.goto(root + "/keys");
  need(!(await page.content()).includes(secret), "the secret of a key is shown again");
  owner.key = secret;

  const again = await open(browser);
  await again.page.goto(info.setup_url);
  await again.page.waitForSelector("[role=alert]");
  need((await again.page.locator("#password").count()) === 0, "the link works twice");
  await again.context.close();

  await firstChat(w);
  owner.state = await w.context.storageState();
  await w.context.close();
}

// trusted: with the root that was downloaded the page opens, without it does not.
async function trusted(file) {
  for (const [given, opens] of [[file, true], [null, false]]) {
    const other = await chromiumThat(given);
    const page = await (await other.newContext()).newPage();
    const outcome = await page.goto(root + "/signin").then((r) => String(r.status()), (e) => e.message);
    need(opens ? outcome === "200" : outcome.includes("ERR_CERT_AUTHORITY_INVALID"), `${given ? "with" : "without"} the root: ${outcome}`);
    await other.close();
  }
}

// firstChat uses the playground, by keyboard where it can.
async function firstChat(w) {
  const { page } = w;
  await page.goto(root + "/playground?model=hearth-tiny");
  await page.selectOption("#tenant", "team");
  await page.focus("#words");
  await page.keyboard.type("Good <b>morning</b>, who are you? 🙂");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.getElementById("say-state").textContent === "Answered.", null, { timeout: 90000 });
  need((await page.textContent(".said.assistant .text")).length > 0, "the model says nothing");
  need((await page.locator("#talk b").count()) === 0, "words became markup");
  const fact = async (id) => (await page.textContent("#f-" + id)).trim();
  need(/^\d+ in.*, \d+ out/.test(await fact("tokens")), `tokens: ${await fact("tokens")}`);
  need(/^[\d.]+ (ms|s)$/.test(await fact("first")), `first token: ${await fact("first")}`);
  need(/^[0-9a-f]{32}$/.test(await fact("trace")), `trace: ${await fact("trace")}`);
  need((await fact("loss")).length > 1, `losses: ${await fact("loss")}`);
  await page.waitForFunction(() => /^\$|no price/.test(document.getElementById("f-cost").textContent));
  await page.click("#f-request a");
  await page.waitForURL(/\/ledger\//);
  need((await page.textContent("main")).includes("hearth-tiny"), "the ledger has not the request of the playground");
  clean(w, "first chat");

  await page.goto(root + "/playground?model=words");
  await page.selectOption("#model", "words");
  await page.fill("#limit", "90");
  await page.fill("#words", "go on");
  await page.click("#send");
  await page.waitForFunction(() => /from alpha alpha/.test(document.querySelector(".said.assistant .text")?.textContent ?? ""));
  await shot(page, "playground answering");
  await page.click("#stop");
  await page.waitForFunction(() => document.getElementById("say-state").textContent === "Stopped.");
  const said = await page.textContent(".said.assistant .text");
  await page.waitForTimeout(400);
  need((await page.textContent(".said.assistant .text")) === said, "words come after the stop");
  need(await page.evaluate(() => document.activeElement.id === "words"), "after the stop the keyboard is not at the words");
  await accessible(page, "playground after a chat");
  clean(w, "stop");
}
