// The server's errors as one line for a person.

/** One line for a person; `needs` is "key" or "login" where that would help. */
export class ServerError extends Error {
  constructor(message, needs = null) {
    super(message);
    this.name = "ServerError";
    this.needs = needs;
  }
}

/**
 * Return the error of a response: its status, its body (`text`, OpenAI's JSON or anything) and its
 * Retry-After header. `server` tells whether the server has a key, and whether the page has one.
 */
export function responseError({ status, text, retryAfter }, { keyWanted, hasKey }) {
  if (status === 401 && keyWanted) {
    return new ServerError(hasKey ? "This API key is wrong." : "This server needs an API key.", "key");
  }
  // The server itself has no key, so the 401 is from the house's login in front of it.
  if (status === 401) return new ServerError("Your session has expired.", "login");
  const reason = messageIn(text);
  if (status === 413 && !reason) return new ServerError("The file is too large for this server.");
  const message = reason ? sentence(reason) : `The server returned HTTP ${status}.`;
  return new ServerError(withWait(message, secondsIn(retryAfter)));
}

/** Return the seconds in a Retry-After header; null if there are none. */
export function secondsIn(retryAfter) {
  return /^[0-9]+$/.test(retryAfter ?? "") ? Number(retryAfter) : null;
}

/** Return a message of the server as a sentence. */
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
  const reason = message.replace(/[;,.]?\s*(try again( later)?)?\.?$/i, "");
  return `${reason}. Try again in ${seconds} s.`;
}
