// The state of the page, and its status line.

export class StatusLine {
  #main;
  #by;

  constructor(main, by) {
    this.#main = main;
    this.#by = by;
  }

  get state() {
    return this.#main.dataset.state;
  }

  /** Show one line, with a link after it if there is one. */
  show(text, link = null) {
    const line = this.#by("status");
    // A screen reader would read the same text aloud again.
    if (line.textContent === text) return;
    line.classList.remove("alert");
    line.replaceChildren(text);
    if (link) line.append(" ", link);
  }

  /** Change the state, and show its line. */
  setState(state, text) {
    this.#main.dataset.state = state;
    this.#by("talk-label").textContent = state === "listening" ? "End line" : "Talk";
    this.show(text);
  }

  /** Show an error, and offer the key form or the login where that helps. */
  showError(error) {
    this.setState("failed", "");
    if (error.needs === "key") {
      this.#by("key-form").hidden = false;
      this.#by("key").focus();
    }
    this.show(error.message, error.needs === "login" ? loginLink() : null);
    this.#by("status").classList.add("alert");
  }
}

function loginLink() {
  const link = document.createElement("a");
  link.id = "login";
  // The reverse proxy sends the page's own address to the login, and back here.
  link.href = "/";
  link.textContent = "Log in again";
  return link;
}
