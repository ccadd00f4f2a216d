// The configuration in the page: traffic that moves and comes back, and two who
// edit at once.
import { accessible, chat, clean, inside, need, owner, root, shot } from "./box.mjs";

const served = async () => (await (await chat(owner.key)).json()).choices?.[0].message.content;

// write puts a changed text into the editor of a page.
async function write(page, change) {
  await page.goto(root + "/config");
  const text = await page.inputValue("#text");
  await page.fill("#text", change(text));
  return text;
}

const review = (page) => page.click("button:has-text('Review the change')");

export async function routing(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  need((await served()) === "from alpha", `before the change: ${await served()}`);
  await write(page, (t) => t.replace('upstream = "alpha" # the first choice', "upstreem = 3"));
  await page.waitForSelector("#verdict .bad");
  need(/line \d+.*upstreem/.test(await page.textContent("#verdict")), `a fault is told as ${await page.textContent("#verdict")}`);
  await review(page);
  await page.waitForSelector("h1:has-text('cannot be applied')");
  await accessible(page, "configuration with faults");
  await shot(page, "configuration with faults");
  need((await page.locator("button:has-text('Apply')").count()) === 0, "a text with faults can be applied");
  await page.click("button:has-text('Go on editing')");
  need((await page.inputValue("#text")).includes("upstreem = 3"), "the text with the fault is lost");

  await write(page, (t) => t.replace('"alpha" # the first choice', '"beta" # the first choice'));
  await page.waitForSelector("#verdict .good");
  need(/keys? change/.test(await page.textContent("#verdict")), `the verdict is ${await page.textContent("#verdict")}`);
  await review(page);
  await page.waitForSelector("pre.diff");
  const ins = (await page.textContent("pre.diff ins")).trim(), del = (await page.textContent("pre.diff del")).trim();
  need(ins.includes('"beta" # the first choice') && del.includes('"alpha" # the first choice'), `the difference is ${del} → ${ins}`);
  await accessible(page, "review");
  await shot(page, "review");
  need((await served()) === "from alpha", "a change that is reviewed is in force");
  await page.fill("#note", "to beta");
  await page.click("button:has-text('Apply it now')");
  await page.waitForSelector("h1:has-text('in force')");
  await accessible(page, "applied");
  need((await served()) === "from beta", `after the change: ${await served()}`);
  await page.goto(root + "/config");
  need((await page.inputValue("#text")).includes('# Where the words come from'), "a comment is lost");
  need((await page.textContent("[aria-label=Revisions] tbody tr:first-child")).includes("to beta"), "the note is not in the history");

  await page.click("[aria-label=Revisions] tbody tr:nth-child(2) a");
  await page.waitForSelector("pre.diff");
  await accessible(page, "revision");
  await shot(page, "revision");
  await page.click("button:has-text('Serve by revision')");
  await page.waitForSelector("h1:has-text('in force')");
  need((await served()) === "from alpha", `after going back: ${await served()}`);
  clean(w, "configuration");
  await w.context.close();
}

export async function twoEditors(browser) {
  const one = await inside(browser, owner), two = await inside(browser, owner);
  const comment = (words) => (t) => t.replace(/price_version = ".*"/, `price_version = "${words}"`);
  const mine = 'price_version = "of-two"';
  await write(two.page, comment("of-two"));
  const before = await write(one.page, comment("of-one"));
  await review(one.page);
  await one.page.click("button:has-text('Apply it now')");
  await one.page.waitForSelector("h1:has-text('in force')");

  await review(two.page);
  const refused = await two.page.textContent("[role=alert]");
  need(/changed by somebody else/.test(refused), `the second editor is told: ${refused}`);
  const diff = await two.page.textContent("pre.diff");
  need(diff.includes("of-one") && diff.includes("of-two"), `the difference between the two is ${diff}`);
  await accessible(two.page, "conflict");
  await shot(two.page, "conflict");
  await two.page.click("button:has-text('Go on editing')");
  need((await two.page.inputValue("#text")).includes(mine), "the text of the second editor is lost");

  // Now both have reviewed before either applies.
  await review(two.page);
  await two.page.waitForSelector("button:has-text('Apply')");
  await write(one.page, comment("of-one-again"));
  await review(one.page);
  await one.page.click("button:has-text('Apply it now')");
  await one.page.waitForSelector("h1:has-text('in force')");
  two.faults.length = 0;
  await two.page.click("button:has-text('Apply it now')");
  await two.page.waitForSelector("[role=alert]");
  need(/changed|somebody|digest|revision/.test(await two.page.textContent("[role=alert]")), `the second to apply is told: ${await two.page.textContent("[role=alert]")}`);
  need((await two.page.textContent("main")).includes("of-one-again"), "the second to apply is not shown what differs");
  need((await two.page.inputValue("#text")).includes(mine), "the text of the second to apply is lost");
  await accessible(two.page, "refused");
  await shot(two.page, "refused");
  await one.page.goto(root + "/config");
  need((await one.page.inputValue("#text")).includes("of-one-again"), "the second to apply has overwritten the first");
  await one.page.fill("#text", before);
  await review(one.page);
  await one.page.click("button:has-text('Apply it now')");
  await one.page.waitForSelector("h1:has-text('in force')");
  clean(one, "first editor");
  await one.context.close();
  await two.context.close();
}
