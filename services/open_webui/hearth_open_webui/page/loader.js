/**
 * Shows when the chat has no connection to its server, and holds messages meanwhile.
 *
 * Open WebUI loads this file before its own scripts. Its own notice is brief, and a message sent
 * without a connection, or just after a reconnect, is lost. So this file watches the WebSocket.
 * After a short interruption it sends a held message; after a longer one it shows a notice, and the
 * message stays in its field.
 */
(() => {
  "use strict";
  const SOCKET_PATH = "/ws/socket.io/";
  const SEND_BUTTON = "#send-message-button";
  // A reload of the reverse proxy closes the WebSocket for about a second: not worth a notice.
  const GRACE_MS = 2000;
  // The page reloads the chat after a reconnect, and drops a message sent before that.
  const SETTLE_MS = 1500;
  // Socket.IO's "connect" packet.
  const CONNECTED = "40";
  const DISCONNECTED =
    "The chat has lost its connection to the house. It reconnects by itself; " +
    "your draft is kept.";
  const HELD = "Not sent: the chat is not connected to the house right now. Your text is kept here.";
  const STYLE = {
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

  let connected = null;
  let timer = null;
  // True before the first connection: there is nothing to hold yet.
  let ready = true;
  let reconnect = false;
  let held = false;

  const notice = document.createElement("div");
  notice.id = "hearth-connection";
  // Screen readers announce changes of an element that exists from the start.
  notice.setAttribute("role", "status");
  Object.assign(notice.style, STYLE);
  notice.hidden = true;

  const show = (text) => {
    notice.textContent = text;
    notice.hidden = !text;
  };

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class WebSocket extends Socket {
    constructor(address, ...more) {
      super(address, ...more);
      if (new URL(address, location.href).pathname !== SOCKET_PATH) return;
      this.addEventListener("message", ({ data }) => {
        if (typeof data === "string" && data.startsWith(CONNECTED)) onConnect(this);
      });
      this.addEventListener("close", () => {
        if (connected === this) onDisconnect();
      });
    }
  };

  const onConnect = (socket) => {
    connected = socket;
    clearTimeout(timer);
    if (reconnect) timer = setTimeout(settle, SETTLE_MS);
    reconnect = true;
  };

  const settle = () => {
    const send = held && notice.hidden;
    ready = true;
    held = false;
    show("");
    if (send) document.querySelector(SEND_BUTTON)?.click();
  };

  const onDisconnect = () => {
    connected = null;
    ready = false;
    clearTimeout(timer);
    timer = setTimeout(() => show(held ? HELD : DISCONNECTED), GRACE_MS);
  };

  const isSend = ({ type, target, key, shiftKey, isComposing }) => {
    if (!(target instanceof Element)) return false;
    if (type !== "keydown") return target.closest(SEND_BUTTON) !== null;
    return key === "Enter" && !shiftKey && !isComposing && target.closest("#chat-input") !== null;
  };

  const hold = (event) => {
    if (ready || !isSend(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    held = true;
    if (!notice.hidden) show(HELD);
  };
  for (const type of ["keydown", "click", "submit"]) addEventListener(type, hold, true);

  // The page's own scripts replace the body's content, so the notice is outside the body.
  document.documentElement.append(notice);
})();
