// Ways in and out: passwords, passkeys, invitations, sessions that others end.
// Leaves somebody of every role signed in, for the other topics.
import { accessible, api, clean, inside, narrow, need, open, owner, root, shot, signIn } from "./box.mjs";

export const people = { owner };

export async function signingIn(browser) {
  await byPassword(browser);
  await byPasskey(browser);
  await invited(browser);
  await ended(browser);
}

async function byPassword(browser) {
  const w = await open(browser);
  const { page } = w;
  await page.goto(root + "/keys");
  need(page.url().startsWith(root + "/signin?then="), `who is not signed in is led to ${page.url()}`);
  await accessible(page, "sign in");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "sign in dark");
  await page.setViewportSize({ width: 360, height: 740 });
  await narrow(page, "sign in 360");
  await shot(page, "sign in dark 360");
  clean(w, "sign in");
  await page.fill("#name", owner.name);
  await page.fill("#password", "not the password at all");
  await page.click("button.main");
  await page.waitForSelector("[role=alert]");
  need((await page.inputValue("#name")) === owner.name, "the name is lost with a wrong password");
  need((await page.inputValue("#password")) === "", "a wrong password is given back");
  await accessible(page, "wrong password");
  await page.fill("#password", owner.password);
  await page.click("button.main");
  await page.waitForURL(root + "/keys");
  await page.click("#menu summary"); // closed at this width
  await page.click("text=Sign out");
  await page.waitForURL(root + "/signin");
  need((await w.context.cookies()).every((c) => !c.name.includes("admin")), "the cookie outlives the session");
  await page.goto(root + "/keys");
  need(page.url().startsWith(root + "/signin"), "after signing out a page opens");
  await w.context.close();
}

// authenticator gives the browser a passkey device that says yes.
async function authenticator(w) {
  const cdp = await w.context.newCDPSession(w.page);
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
}

async function byPasskey(browser) {
  const w = await open(browser);
  const { page } = w;
  await authenticator(w);
  await signIn(page, owner);
  await page.goto(root + "/me");
  await page.fill("#pk-name", "laptop");
  await page.click("button[data-passkey-add]");
  await page.waitForSelector("section[aria-labelledby=h-passkeys] th:has-text('laptop')");
  await page.click("text=Sign out");
  await page.waitForURL(root + "/signin");
  await page.click("#use-passkey");
  await page.waitForURL(root + "/");
  need((await page.textContent(".who")).includes(owner.name), "the passkey signs in somebody else");
  await page.goto(root + "/me");
  need(/passkey/.test(await page.textContent("main dl")), "the page does not say that it was a passkey");
  clean(w, "passkey");
  await w.context.close();
}

// invited: an operator by the page and a password, an auditor by a passkey alone,
// a tenant admin by the API.
async function invited(browser) {
  const w = await inside(browser, owner);
  const { page } = w;
  for (const [role, tenant, how] of [["operator", "", "page"], ["auditor", "", "passkey"], ["tenant-admin", "team", "api"]]) {
    const name = "the-" + role;
    let link;
    if (how === "api") {
      link = (await api(page, "POST", "/accounts", { name, role, tenant })).invitation_url;
    } else {
      await page.goto(root + "/accounts");
      await page.fill("#a-name", name);
      await page.selectOption("#a-role", role);
      await page.click("button:has-text('Make an invitation')");
      link = (await page.textContent("#the-secret")).trim();
      if (role === "operator") await shot(page, "invitation");
    }
    const guest = await open(browser);
    if (how === "passkey") await authenticator(guest);
    await guest.page.goto(link);
    await guest.page.waitForSelector("#password");
    need((await guest.page.inputValue("#name")) === name, "an invitation is for somebody else");
    if (how === "passkey") {
      await guest.page.click("#make-passkey");
    } else {
      await guest.page.fill("#password", name + " likes plum cake");
      await guest.page.fill("#repeated", name + " likes plum cake");
      await guest.page.click("#enrol button[type=submit]");
    }
    await guest.page.waitForURL(root + "/");
    await guest.page.waitForSelector(".who");
    need((await guest.page.textContent(".who")).includes(role), `${name} is not told as ${role}`);
    clean(guest, "invitation of " + role);
    people[role] = { name, state: await guest.context.storageState() };
    await guest.context.close();
  }
  clean(w, "accounts");
  await w.context.close();
}

// ended: a session that is ended elsewhere is over at its next step.
async function ended(browser) {
  const here = await open(browser), there = await inside(browser, owner);
  await signIn(here.page, owner);
  await there.page.goto(root + "/me");
  const rows = there.page.locator("[aria-label=Sessions] tbody tr:not(:has-text('this one'))");
  need((await rows.count()) >= 1, "another session is not listed");
  for (let n = await rows.count(); n > 0; n--) {
    await rows.first().locator("button").click();
    await there.page.waitForLoadState();
  }
  await here.page.goto(root + "/keys");
  need(here.page.url().startsWith(root + "/signin"), "a session goes on that was ended");
  clean(there, "ending sessions");
  await here.context.close();
  await there.context.close();
}
