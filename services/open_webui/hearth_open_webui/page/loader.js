/**
 * Say for as long as it lasts that the chat's server is away, and let nothing be sent to nobody.
 *
 * Open WebUI loads this file before its own scripts. Its page says only for a moment that the
 * connection was lost, and a message sent meanwhile, or in the first moment after it, is lost. So the
 * live line is watched here: while it is cut, a notice stands at the top and what is written stays in
 * its field. Where it was cut for a moment only, a message waits for that long and goes by itself.
 */
(() => {
  "use strict";
  const LINE = "/ws/socket.io/";
  const SEND = "#send-message-button";
  // A front door that is told something new cuts the line for about a second; nobody need know.
  const GRACE_MS = 2000;
  // The page asks for the chat anew when its line is back, and forgets what was sent before that.
  const SETTLE_MS = 1500;
  const GREETED = "40";
  const GONE =
    "The chat has lost its connection to the house. It comes back by itself; " +
    "what is written here stays.";
  const HELD = "Not sent: the chat has no connection to the house just now. Your words stay here.";
  const LOOKS = {
    position: "fixed",
    zIndex: "2147483647",
    top: "0.5rem",
    left: "50%",
    transform: "translateX(-50%)",
    width: "max-content",
    maxWidth: "calc(100vw - 2rem)",
    boxSizing: "border-box",
    padding: "0.5rem 1rem",
    borderRadius: "0.75rem",
    background: "#7c2d12",
    color: "#ffffff",
    font: "0.875rem/1.4 system-ui, sans-serif",
    boxShadow: "0 2px 8px rgb(0 0 0 / 0.3)",
  };

  let line = null;
  let timer = null;
  // Before the first greeting there is nothing to send, and nothing to hold.
  let free = true;
  let known = false;
  let waiting = false;

  const notice = document.createElement("div");
  notice.id = "hearth-connection";
  // Readers of screens hear what changes in it, so it is there from the start.
  notice.setAttribute("role", "status");
  Object.assign(notice.style, LOOKS);
  notice.hidden = true;

  const tell = (text) => {
    notice.textContent = text;
    notice.hidden = !text;
  };

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class WebSocket extends Socket {
    constructor(address, ...more) {
      super(address, ...more);
      if (new URL(address, location.href).pathname !== LINE) return;
      this.addEventListener("message", ({ data }) => {
        if (typeof data === "string" && data.startsWith(GREETED)) there(this);
      });
      this.addEventListener("close", () => {
        if (line === this) gone();
      });
    }
  };

  const there = (socket) => {
    line = socket;
    clearTimeout(timer);
    if (known) timer = setTimeout(settle, SETTLE_MS);
    known = true;
  };

  const settle = () => {
    const goes = waiting && notice.hidden;
    free = true;
    waiting = false;
    tell("");
    if (goes) document.querySelector(SEND)?.click();
  };

  const gone = () => {
    line = null;
    free = false;
    clearTimeout(timer);
    timer = setTimeout(() => tell(waiting ? HELD : GONE), GRACE_MS);
  };

  const sends = ({ type, target, key, shiftKey, isComposing }) => {
    if (!(target instanceof Element)) return false;
    if (type !== "keydown") return target.closest(SEND) !== null;
    return key === "Enter" && !shiftKey && !isComposing && target.closest("#chat-input") !== null;
  };

  const hold = (event) => {
    if (free || !sends(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    waiting = true;
    if (!notice.hidden) tell(HELD);
  };
  for (const type of ["keydown", "click", "submit"]) addEventListener(type, hold, true);

  // The page's own scripts make its content anew; the notice is beside it.
  document.documentElement.append(notice);
})();
