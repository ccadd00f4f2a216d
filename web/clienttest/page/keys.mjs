// A key from its making to its end, as the page and the programs that show it see
// it.
import { chat, clean, info, inside, need, open, owner, root, shot } from "./box.mjs";

const call = async (secret) => (await chat(secret)).status;

// makeKey makes one on the page and gives its secret and its page.
async function makeKey(page, name, tenant) {
  await page.goto(root + "/keys");
  await page.fill("#k-name", name);
  await page.selectOption("#k-tenant", tenant);
  await page.click("button:has-text('Make the key')");
  const secret = (await page.textContent("#the-secret")).trim();
  await page.goto(root + "/keys");
  const at = await page.locator(`tr:has(th:text-is("${name}")) a.mono`).getAttribute("href");
  return { secret, at };
}

async function revoke(page, { at }, name) {
  await page.goto(root + at);
  await page.fill("#sure", name);
  await page.click("button:has-text('Revoke the key')");
}

export async function keys(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  const robot = await makeKey(page, "robot", "team");
  need((await call(robot.secret)) === 200, "a new key is refused");
  await page.goto(root + robot.at);
  await page.selectOption("#grace", "0s");
  await page.click("button:has-text('Make a new secret')");
  const renewed = (await page.textContent("#the-secret")).trim();
  await shot(page, "new secret");
  need(renewed !== robot.secret, "the secret is the old one");
  need((await call(robot.secret)) === 401, "the old secret is still good");
  need((await call(renewed)) === 200, "the new secret is refused");

  await page.goto(root + robot.at);
  await page.fill("#sure", "something else");
  await page.click("button:has-text('Revoke the key')");
  await page.waitForSelector("[role=alert]");
  need((await call(renewed)) === 200, "a key is revoked without its name");
  w.faults.length = 0; // the refusal stands on the console

  const reply = await chat(renewed, { stream: true, max_tokens: 1000 });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.split("alpha").length < 4) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the stream ended by itself: " + text.slice(-300));
    text += value;
  }
  await page.fill("#sure", "robot");
  let revoked = 0;
  page.on("response", (r) => { if (r.url().endsWith("/do/key/revoke")) revoked = Date.now(); });
  const clicked = Date.now();
  const click = page.click("button:has-text('Revoke the key')");
  const deadline = Date.now() + 30000;
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done || Date.now() > deadline) break;
    text += value;
  }
  const over = Date.now();
  await click;
  await page.waitForSelector("text=revoked");
  need(over - (revoked || clicked) <= 1000, `the stream of a revoked key ends ${over - revoked} ms after`);
  need(/"error"/.test(text.slice(-2000)) && !text.includes("[DONE]"), `the stream ends without an error: ${text.slice(-300)}`);
  need((await call(renewed)) === 401, "a revoked key is taken");
  clean(w, "keys");
  await w.context.close();
}

// withoutScripts: signing in, making a key and revoking it.
export async function withoutScripts(browser) {
  const { page, context } = await open(browser, { javaScriptEnabled: false });
  await page.goto(root + "/signin");
  await page.fill("#name", owner.name);
  await page.fill("#password", owner.password);
  await page.click("button.main");
  await page.waitForURL(root + "/");
  const plain = await makeKey(page, "plain", "default");
  need((await call(plain.secret)) === 200, "a key made without scripts is refused");
  await revoke(page, plain, "plain");
  await page.waitForSelector("text=revoked");
  need((await call(plain.secret)) === 401, "a key revoked without scripts is taken");
  for (const at of await page.locator("nav a").evaluateAll((list) => list.map((a) => a.pathname))) {
    const reply = await page.goto(root + at);
    need(reply.status() === 200 && (await page.locator("nav a[aria-current]").count()) === 1, `without scripts ${at} is ${reply.status()}`);
  }
  await page.click("text=Sign out");
  await page.waitForURL(root + "/signin");
  await context.close();
}

// budget: a budget that is reached while a stream runs.
export async function budget(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  await page.goto(root + "/tenants");
  await page.fill("#t-name", "tiny");
  await page.selectOption("#t-period", "total");
  await page.fill("#t-cap", "0.005");
  await page.click("button:has-text('Add the tenant')");
  await page.waitForSelector("h3:has-text('tiny')");
  const { secret } = await makeKey(page, "spender", "tiny");
  const stop = new AbortController();
  const first = await fetch(info.base_url + "/v1/chat/completions", {
    method: "POST", signal: stop.signal, headers: { authorization: "Bearer " + secret, "content-type": "application/json" },
    body: JSON.stringify({ model: "words", stream: true, max_tokens: 1000, messages: [{ role: "user", content: "on and on" }] }),
  });
  need(first.status === 200, `the first request is answered ${first.status}`);
  await first.body.getReader().read();
  const second = await chat(secret, { max_tokens: 1000 });
  const said = await second.json();
  need(second.status === 429 && said.error?.code === "insufficient_quota", `beyond the budget: ${second.status} ${JSON.stringify(said)}`);
  await page.goto(root + "/tenants/tiny");
  need(/\$0\.004\d* held/.test((await page.textContent("main")).replaceAll(/\s+/g, " ")), `the page does not tell what is held: ${await page.textContent("section")}`);
  await page.goto(root + "/");
  need(/\$0\.004/.test(await page.textContent("tr:has(th:text-is('tiny'))")), "the overview does not tell what is held");
  stop.abort();
  clean(w, "budget");
  await w.context.close();
}
