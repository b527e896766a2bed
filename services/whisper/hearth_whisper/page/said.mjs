// What the page says of itself: its state, and one line for a person.

/** The state of the page and its line. */
export class Said {
  #main;
  #by;

  constructor(main, by) {
    this.#main = main;
    this.#by = by;
  }

  get state() {
    return this.#main.dataset.state;
  }

  /** Say one line, with a link after it if there is one. */
  say(text, link = null) {
    const line = this.#by("status");
    // Said again it would be read aloud again.
    if (line.textContent === text) return;
    line.classList.remove("alert");
    line.replaceChildren(text);
    if (link) line.append(" ", link);
  }

  /** Be in another state, and say so. */
  become(state, text) {
    this.#main.dataset.state = state;
    this.#by("talk-label").textContent = state === "listening" ? "Line now" : "Talk";
    this.say(text);
  }

  /** Say what went wrong, and offer what mends it. */
  fail(error) {
    this.become("failed", "");
    if (error.needs === "key") {
      this.#by("key-form").hidden = false;
      this.#by("key").focus();
    }
    this.say(error.message, error.needs === "login" ? loginLink() : null);
    this.#by("status").classList.add("alert");
  }
}

function loginLink() {
  const link = document.createElement("a");
  link.id = "login";
  // The page itself: whoever guards it asks for the login and comes back here.
  link.href = "/";
  link.textContent = "Log in again";
  return link;
}
