// Passkeys: what the server sends has base64url texts, and the browser wants bytes.
const toBytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
const toText = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const named = (list = []) => list.map((one) => ({ ...one, id: toBytes(one.id) }));

/** Let a person make a passkey; returns what the server verifies. */
export async function make(options) {
  const publicKey = {
    ...options,
    challenge: toBytes(options.challenge),
    user: { ...options.user, id: toBytes(options.user.id) },
    excludeCredentials: named(options.excludeCredentials),
  };
  const made = await navigator.credentials.create({ publicKey });
  return plain(made, ["clientDataJSON", "attestationObject"]);
}

/** Let a person sign with a passkey; returns what the server verifies. */
export async function sign(options) {
  const publicKey = {
    ...options,
    challenge: toBytes(options.challenge),
    allowCredentials: named(options.allowCredentials),
  };
  const made = await navigator.credentials.get({ publicKey });
  return plain(made, ["clientDataJSON", "authenticatorData", "signature"]);
}

function plain(credential, parts) {
  const response = {};
  for (const part of parts) response[part] = toText(credential.response[part]);
  return { id: credential.id, rawId: toText(credential.rawId), type: credential.type, response };
}

/** Send JSON to the house; returns its answer, or throws an error with its text. */
export async function send(address, body) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.text ?? `The house answers ${answer.status}.`);
  return found;
}

/** What a person reads about an error. */
export function reason(error) {
  if (error.name === "NotAllowedError") return "The passkey was not used. Nothing was done.";
  if (error.name === "InvalidStateError") return "This device has a passkey for this house already.";
  return error.message;
}
