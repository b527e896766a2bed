/**
 * Record what a chat's page shows and what its WebSocket does, before any script of its own runs.
 *
 * It is written into each new document as text, so it may use nothing from outside itself. An answer
 * is recorded whenever its text changes, so a reader can tell a stream from a single piece, and knows
 * what was on the page when something else happened.
 */
export function recordChat() {
  const LINE = "/ws/socket.io/";
  // The page ends a person's message with its time, which may be another one after a reload.
  const TIME = /\s*\w{3} \d+, \d+:\d\d [AP]M$/;
  const records = { shown: [], toasts: [], notices: [], lines: [] };

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      if (new URL(given[0], location.href).pathname !== LINE) return;
      const line = { begun: performance.now(), greeted: null, ended: null };
      records.lines.push(line);
      this.addEventListener("message", ({ data }) => {
        // The last message of the server before the page may speak.
        if (String(data).startsWith("40")) line.greeted ??= performance.now();
      });
      this.addEventListener("close", () => (line.ended = performance.now()));
    }
  };

  const text = (one) => one?.innerText.trim() ?? "";
  const all = (selector) => [...document.querySelectorAll(selector)];
  const look = () => {
    note(records.shown, text(all("#response-content-container").at(-1)));
    note(records.toasts, all("[data-sonner-toast]").map(text).join("\n"));
    note(records.notices, all("#hearth-connection:not([hidden])").map(text).join("\n"));
  };
  const note = (list, value) => {
    if ((list.at(-1)?.[1] ?? "") !== value) list.push([performance.now(), value]);
  };
  const watch = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document, { ...watch, attributeFilter: ["hidden"] });

  globalThis.__chat = {
    /** Forget what was shown and received so far. */
    clear() {
      Object.assign(records, { shown: [], toasts: [], notices: [] });
    },
    /** Return the name of the last answer, and whether it has ended: then it can be read aloud. */
    last() {
      const answers = all("[id^=message-]").filter((one) =>
        one.querySelector("#response-content-container"),
      );
      const done = Boolean(answers.at(-1)?.querySelector("[id^=speak-button-]"));
      return { id: answers.at(-1)?.id ?? null, done };
    },
    /** Return in how many states an answer was shown since then. */
    states: () => records.shown.filter(([, shown]) => shown).length,
    /** Return all of it, in milliseconds on the page's clock, with what stands there now. */
    report() {
      const messages = all("[id^=message-]")
        .filter((one) => one.id !== "message-input-container")
        .map((one) => ({
          mine: one.querySelector("#response-content-container") === null,
          model: text(one.querySelector("#response-message-model-name")) || null,
          // The house's own text above an answer: which model it came from.
          from: text(one).match(/^Answered by (.*)$/m)?.[1] ?? null,
          text: text(one.querySelector("#response-content-container") ?? one).replace(TIME, ""),
        }));
      return { ...records, messages, now: performance.now() };
    },
  };
}
