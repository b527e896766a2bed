// Plays sound as it comes, by the audio worklet.

import { samplesOf } from "./sound.mjs";

// So much is fetched ahead of what is heard: the server makes no more of what may be stopped.
const AHEAD_S = 30;
const DEAF_MS = 3000;

/** One speech of the worklet; `notes` hears first, piece, stall, over, deaf and broke. */
export class WorkletSink {
  #context;
  #node;
  #notes;
  #pushed = 0;
  #taken = 0;
  #more = () => {};
  #over = false;

  constructor(context, analyser, notes) {
    this.path = "worklet";
    this.#context = context;
    this.#notes = notes;
    const shape = { numberOfInputs: 0, numberOfOutputs: 1, outputChannelCount: [1] };
    this.#node = new AudioWorkletNode(context, "hearth-speech", shape);
    this.#node.port.onmessage = ({ data }) => this.#take(data);
    this.#node.onprocessorerror = () => this.#broke();
    this.#node.connect(analyser);
  }

  /** Play these bytes after what came before; a piece of text begins with its first bytes. */
  push(bytes, piece) {
    const samples = samplesOf(bytes);
    if (this.#pushed === 0) setTimeout(() => this.#listen(), DEAF_MS);
    this.#pushed += samples.length;
    this.#node.port.postMessage({ samples, piece }, [samples.buffer]);
  }

  /** Wait until more sound is wanted. */
  async room() {
    while (!this.#over && this.#pushed - this.#taken > AHEAD_S * this.#context.sampleRate) {
      await new Promise((done) => (this.#more = done));
    }
  }

  /** Say that nothing more comes. */
  end() {
    this.#node.port.postMessage({ type: "end" });
  }

  /** Be silent now. */
  stop() {
    this.#node.port.postMessage({ type: "stop" });
    // It fades out within 5 ms; where the sound does not run at all, it would wait for ever.
    setTimeout(() => this.#node.disconnect(), 100);
    this.#finish();
  }

  #take(note) {
    if (this.#over) return;
    if (note.type === "taken") {
      this.#taken = note.samples;
      this.#more();
    } else if (note.type === "first") {
      const since = Math.max(0, this.#context.currentTime - note.at_s);
      this.#notes.first(performance.now() - 1000 * since);
    } else if (note.type === "piece") this.#notes.piece(note.piece);
    else if (note.type === "stall") this.#notes.stall();
    else if (note.type === "over") {
      this.#finish();
      this.#node.disconnect();
      this.#notes.over();
    }
  }

  #listen() {
    if (!this.#over && this.#context.state !== "running") this.#notes.deaf();
  }

  #broke() {
    this.#finish();
    this.#notes.broke("The browser stopped playback with an error.");
  }

  #finish() {
    this.#over = true;
    this.#more();
  }
}
