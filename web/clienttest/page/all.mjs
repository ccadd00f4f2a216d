// The pages of the control plane in a real Chromium, over TLS that its user trusts
// because they imported the root; each topic in a file of its own. Arguments are
// words of the topics to run; the first run and the sign-ins always come first.
import { chromiumThat, info, topic, verdict } from "./box.mjs";
import { routing, twoEditors } from "./config.mjs";
import { everyPage, keyboard, weight } from "./every.mjs";
import { firstRun } from "./firstrun.mjs";
import { budget, keys, withoutScripts } from "./keys.mjs";
import { live } from "./live.mjs";
import { signingIn } from "./signin.mjs";

const words = process.argv.slice(2);
const browser = await chromiumThat(info.ca_file);
const always = [firstRun, signingIn];
for (const [name, run] of [
  ["first run to first chat", firstRun],
  ["sign-in, passkeys, invitations, sessions", signingIn],
  ["keys", keys],
  ["without scripts", withoutScripts],
  ["configuration moves traffic", routing],
  ["two editors", twoEditors],
  ["budget reached while streaming", budget],
  ["live updates", live],
  ["weight and first paint", weight],
  ["keyboard", keyboard],
  ["every page", everyPage],
]) {
  if (!words.length || always.includes(run) || words.some((w) => name.includes(w))) await topic(name, () => run(browser));
}
await browser.close();
process.exit(verdict());
