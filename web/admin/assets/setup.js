import { supported, create, why } from "./passkey.js";

// The token of a link stands in its fragment, which browsers send to nobody; it
// is put into the form here and taken out of the address. A link that is pasted
// while the page is open changes the fragment alone.
function takeToken() {
  const token = location.hash.slice(1);
  const field = document.getElementById("token");
  if (token) history.replaceState(null, "", location.pathname);
  if (token && field) {
    field.value = token;
    document.getElementById("setup").requestSubmit();
  }
}
takeToken();
addEventListener("hashchange", takeToken);

const made = document.getElementById("make-passkey");
if (made && supported && isSecureContext) {
  const said = document.getElementById("said");
  const name = document.getElementById("name");
  document.getElementById("passkey").hidden = false;
  made.addEventListener("click", async () => {
    if (!name.reportValidity()) return;
    said.textContent = "Waiting for the passkey…";
    try {
      const { to } = await create("/setup/passkey/begin", "/setup/passkey/finish", { name: name.value }, {});
      location.assign(to);
    } catch (error) {
      said.textContent = why(error);
    }
  });
}
