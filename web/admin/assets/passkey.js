// Passkeys between our JSON and the browser's objects (WebAuthn L3 §5.1.8-10,
// by hand, since not every browser has those functions yet).
export const supported = Boolean(window.PublicKeyCredential && navigator.credentials);

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const ids = (list) => (list ?? []).map((one) => ({ ...one, id: bytes(one.id) }));

function plain(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = text(credential.response[name]);
  }
  if (credential.response.getTransports) response.transports = credential.response.getTransports();
  return {
    id: credential.id, rawId: text(credential.rawId), type: credential.type, response,
    authenticatorAttachment: credential.authenticatorAttachment ?? undefined,
    clientExtensionResults: credential.getClientExtensionResults(),
  };
}

async function make(options) {
  const publicKey = { ...options, challenge: bytes(options.challenge), user: { ...options.user, id: bytes(options.user.id) }, excludeCredentials: ids(options.excludeCredentials) };
  return plain(await navigator.credentials.create({ publicKey }));
}

async function show(options) {
  const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: ids(options.allowCredentials) };
  return plain(await navigator.credentials.get({ publicKey }));
}

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json", accept: "application/json" }, body: JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error.message);
  return value;
}

// create makes a passkey by two requests, use signs in with one. Both give what
// the second answered.
export async function create(begin, finish, first, second) {
  const { ticket, options } = await post(begin, first);
  return post(finish, { ...second, ticket, credential: await make(options) });
}

export async function use(begin, finish, second) {
  const { ticket, options } = await post(begin, {});
  return post(finish, { ...second, ticket, credential: await show(options) });
}

// why is what to say of an error: the browser's own are cryptic on purpose.
export const why = (error) =>
  error.name === "NotAllowedError" ? "Nothing happened: it was cancelled or took too long." :
  error.name === "InvalidStateError" ? "There is a passkey of this account on this device already." :
  error.name === "SecurityError" ? "Passkeys do not work at this address: open the page by a name, for instance localhost." : error.message;

// <button data-passkey-add> adds one to the account that is signed in; the name
// comes from the field that data-name gives the id of.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-passkey-add]");
  if (!button) return;
  const said = document.getElementById(button.dataset.said);
  try {
    const name = document.getElementById(button.dataset.name)?.value ?? "";
    await create("/api/passkeys/begin", "/api/passkeys", { origin: location.origin }, { name });
    location.reload();
  } catch (error) {
    if (error.message.includes("sign in once more")) location.assign("/signin?again=1&then=" + encodeURIComponent(location.pathname));
    else if (said) said.textContent = why(error);
  }
});
