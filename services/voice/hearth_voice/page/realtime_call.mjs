// One call in OpenAI's Realtime protocol, without anything of a browser but a WebSocket.

const RATE = 24000;
const SESSION = {
  type: "realtime",
  audio: { input: { transcription: { model: "whisper-1" }, turn_detection: { type: "semantic_vad" } } },
};

// The house sends something every second.
const SILENT_MS = 2500;
const LOOK_MS = 500;

/** A call; `report(name, value)` tells the page what happens. */
export class RealtimeCall {
  #socket;
  #report;
  #reason = "";
  #heard_at;
  #is_gone = false;
  #watch;

  constructor(socket, report, now = () => performance.now()) {
    this.#socket = socket;
    this.#report = report;
    this.#heard_at = now();
    this.#watch = setInterval(() => this.#look(now()), LOOK_MS);
    socket.onopen = () => this.#send({ type: "session.update", session: SESSION });
    socket.onmessage = ({ data }) => {
      this.#heard_at = now();
      this.#look(this.#heard_at);
      this.#take(JSON.parse(data));
    };
    socket.onclose = ({ code }) => {
      clearInterval(this.#watch);
      this.#report("ended", this.#reason || reasonOf(code));
    };
  }

  /** Send samples of the microphone. */
  hear(samples) {
    if (this.#socket.readyState !== 1) return;
    this.#send({ type: "input_audio_buffer.append", audio: toBase64(new Uint8Array(samples.buffer)) });
  }

  /** Tell the house how much of an item was heard, in milliseconds. */
  heard(item, ms) {
    const end = Math.max(0, Math.floor(ms));
    this.#send({ type: "conversation.item.truncate", item_id: item, content_index: 0, audio_end_ms: end });
    // Its words are then those that were heard.
    this.#send({ type: "conversation.item.retrieve", item_id: item });
  }

  /** End the call. */
  hangUp() {
    clearInterval(this.#watch);
    this.#socket.onclose = null;
    this.#socket.close(1000);
  }

  /** Tell the page when the connection falls silent, and when it is back. */
  #look(now) {
    const isGone = this.#socket.readyState === 1 && now - this.#heard_at > SILENT_MS;
    if (isGone === this.#is_gone) return;
    this.#is_gone = isGone;
    this.#report(isGone ? "gone" : "back");
  }

  #send(event) {
    if (this.#socket.readyState === 1) this.#socket.send(JSON.stringify(event));
  }

  #take(event) {
    switch (event.type) {
      case "session.updated":
        return this.#report("ready");
      case "input_audio_buffer.speech_started":
        return this.#report("interrupted");
      case "conversation.item.input_audio_transcription.completed":
        return this.#report("question", { item: event.item_id, text: event.transcript });
      case "conversation.item.input_audio_transcription.failed":
        return this.#report("problem", event.error.message);
      case "response.output_audio_transcript.delta":
        return this.#report("words", { item: event.item_id, text: event.delta });
      case "response.output_audio.delta":
        return this.#report("sound", { item: event.item_id, samples: toSamples(event.delta) });
      case "conversation.item.retrieved":
        return this.#report("heard", { item: event.item.id, text: event.item.content[0]?.transcript ?? "" });
      case "response.done":
        return this.#done(event.response);
      case "hearth.turn":
        return this.#report("turn", event);
      case "error":
        this.#reason = event.error.message;
        return this.#report("problem", event.error.message);
      default:
        return undefined;
    }
  }

  #done(response) {
    if (response.status === "failed") this.#report("problem", response.status_details.error.message);
  }
}

function reasonOf(code) {
  return code === 1000 ? "The call has ended." : "The connection to the house is lost. Press Call to try again.";
}

/** Return 16-bit PCM in base64 as samples from -1 to 1. */
export function toSamples(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const whole = new Int16Array(bytes.buffer, 0, bytes.length >> 1);
  return Float32Array.from(whole, (sample) => sample / 32767);
}

/** Return bytes in base64. */
export function toBase64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

/** Return the milliseconds of so many samples. */
export function msOf(samples) {
  return (samples * 1000) / RATE;
}
