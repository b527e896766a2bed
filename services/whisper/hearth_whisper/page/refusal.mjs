// What a server's refusal means to a person: one line, and what would mend it.

/** What went wrong, in one line; `needs` is "key" or "login" where that would mend it. */
export class ServerError extends Error {
  constructor(message, needs = null) {
    super(message);
    this.name = "ServerError";
    this.needs = needs;
  }
}

/**
 * Return why a server refused: by its status, its words (`text`, OpenAI's JSON or anything) and
 * when it may be asked again (`again`, as Retry-After says it).
 */
export function refusal({ status, text, again }, { keyWanted, hasKey }) {
  if (status === 401 && keyWanted) {
    return new ServerError(hasKey ? "This API key is wrong." : "This server needs an API key.", "key");
  }
  // The server has no key, so whoever asks for one stands before it: the house's login.
  if (status === 401) return new ServerError("Your session has expired.", "login");
  const said = messageIn(text);
  if (status === 413 && !said) return new ServerError("The file is too large for this server.");
  const message = said ? sentence(said) : `The server returned HTTP ${status}.`;
  return new ServerError(withWait(message, secondsOf(again)));
}

/** Return the seconds that a Retry-After says; null if it says none. */
export function secondsOf(again) {
  return /^[0-9]+$/.test(again ?? "") ? Number(again) : null;
}

/** Return a server's words as a sentence. */
export function sentence(message) {
  if (!message) return "The request failed.";
  return `${message[0].toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

function messageIn(text) {
  try {
    return JSON.parse(text)?.error?.message ?? null;
  } catch {
    return null;
  }
}

function withWait(message, seconds) {
  if (seconds === null) return message;
  const plain = message.replace(/[;,.]?\s*(try again( later)?)?\.?$/i, "");
  return `${plain}. Try again in ${seconds} s.`;
}
