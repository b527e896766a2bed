// The line to the server for one talk: sound goes out, events come in.

// So much sound may wait to be sent: on a line that is slower than speech it only grows.
const MOST_WAITING_S = 10;

/** One WebSocket; `heard` takes each event, `closed` whether it ever was open, and why it is not. */
export class Line {
  #socket;
  #early = [];
  #waiting_bytes;
  #heard;

  /** `asked` is the protocol's first message; sound may be sent at once, it waits for the line. */
  constructor(address, asked, heard, closed) {
    this.#waiting_bytes = 2 * asked.sample_rate * MOST_WAITING_S;
    this.#heard = heard;
    let opened = false;
    this.#socket = new WebSocket(address);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      opened = true;
      this.#socket.send(JSON.stringify({ type: "start", ...asked }));
      for (const one of this.#early.splice(0)) this.#socket.send(one);
    };
    this.#socket.onmessage = ({ data }) => typeof data === "string" && this.#take(data);
    this.#socket.onclose = ({ reason }) => closed(opened, reason);
  }

  /** Send samples; return false when the line is so slow that it makes no sense any more. */
  sound(samples) {
    this.#send(samples);
    const early = this.#early.length * samples.byteLength;
    return this.#socket.bufferedAmount + early <= this.#waiting_bytes;
  }

  /** Ask for the text of what was said until now. */
  flush() {
    this.#send(JSON.stringify({ type: "flush" }));
  }

  /** Say that nothing more comes: the server sends the rest, and done. */
  end() {
    this.#send(JSON.stringify({ type: "end" }));
  }

  /** Close it now; nothing more is heard. */
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

  #take(text) {
    let event = null;
    try {
      event = JSON.parse(text);
    } catch {
      event = { type: "error", error: { message: "the server sent an invalid event" } };
    }
    this.#heard(event);
  }
}
