// The WebSocket of a live session: audio out, events in.

// Audio that waits to be sent: on a connection slower than real time it only grows.
const MAX_WAITING_S = 10;

export class StreamSocket {
  #socket;
  #early = [];
  #maxWaiting_bytes;
  #onEvent;

  /**
   * `start` is the protocol's first message; audio sent before the connection opens waits for it.
   *
   * `onEvent` takes each event; `onClose` takes whether it was ever open, and the reason.
   */
  constructor(address, start, onEvent, onClose) {
    this.#maxWaiting_bytes = 2 * start.sample_rate * MAX_WAITING_S;
    this.#onEvent = onEvent;
    let opened = false;
    this.#socket = new WebSocket(address);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      opened = true;
      this.#socket.send(JSON.stringify({ type: "start", ...start }));
      for (const message of this.#early.splice(0)) this.#socket.send(message);
    };
    this.#socket.onmessage = ({ data }) => typeof data === "string" && this.#receive(data);
    this.#socket.onclose = ({ reason }) => onClose(opened, reason);
  }

  /** Send samples; return false when the connection is too slow for live audio. */
  sendAudio(samples) {
    this.#send(samples);
    const early = this.#early.length * samples.byteLength;
    return this.#socket.bufferedAmount + early <= this.#maxWaiting_bytes;
  }

  /** Request the text of the audio until now. */
  flush() {
    this.#send(JSON.stringify({ type: "flush" }));
  }

  /** End the audio: the server sends the rest, and `done`. */
  end() {
    this.#send(JSON.stringify({ type: "end" }));
  }

  /** Close it at once; no further event is reported. */
  close() {
    this.#socket.onmessage = null;
    this.#socket.onclose = null;
    this.#early = [];
    this.#socket.close();
  }

  #send(message) {
    if (this.#socket.readyState === WebSocket.CONNECTING) this.#early.push(message);
    else if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(message);
  }

  #receive(text) {
    let event = null;
    try {
      event = JSON.parse(text);
    } catch {
      event = { type: "error", error: { message: "the server sent an invalid event" } };
    }
    this.#onEvent(event);
  }
}
