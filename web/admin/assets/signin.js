import { supported, use, why } from "./passkey.js";

const said = document.getElementById("said");
if (supported && isSecureContext) {
  document.getElementById("passkey").hidden = false;
  document.getElementById("use-passkey").addEventListener("click", async () => {
    said.textContent = "Waiting for the passkey…";
    try {
      const { to } = await use("/signin/passkey/begin", "/signin/passkey/finish", { then: document.getElementById("signin").dataset.then });
      location.assign(to);
    } catch (error) {
      said.textContent = why(error);
    }
  });
}
