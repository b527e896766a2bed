// Plays sound as it arrives, by the audio worklet.

import { samplesOf } from "./pcm.mjs";

// The most sound that is fetched ahead: the server need not synthesise what may be stopped.
const AHEAD_S = 30;
const NO_OUTPUT_MS = 3000;

/** Plays one speech; `events` has first, segment, stall, over, noOutput and failed. */
export class WorkletSink {
  #context;
  #node;
  #events;
  #pushed = 0;
  #taken = 0;
  #more = () => {};
  #over = false;

  constructor(context, analyser, events) {
    this.path = "worklet";
    this.#context = context;
    this.#events = events;
    const shape = { numberOfInputs: 0, numberOfOutputs: 1, outputChannelCount: [1] };
    this.#node = new AudioWorkletNode(context, "hearth-speech", shape);
    this.#node.port.onmessage = ({ data }) => this.#take(data);
    this.#node.onprocessorerror = () => this.#fail();
    this.#node.connect(analyser);
  }

  /** Append bytes; `segment` is the number of the segment that starts here, or null. */
  push(bytes, segment) {
    const samples = samplesOf(bytes);
    if (this.#pushed === 0) setTimeout(() => this.#listen(), NO_OUTPUT_MS);
    this.#pushed += samples.length;
    this.#node.port.postMessage({ samples, segment }, [samples.buffer]);
  }

  /** Wait until more sound is needed. */
  async room() {
    while (!this.#over && this.#pushed - this.#taken > AHEAD_S * this.#context.sampleRate) {
      await new Promise((done) => (this.#more = done));
    }
  }

  /** Mark the end of the sound. */
  end() {
    this.#node.port.postMessage({ type: "end" });
  }

  /** Stop the sound. */
  stop() {
    this.#node.port.postMessage({ type: "stop" });
    // It fades out within 5 ms; a suspended context would never report that.
    setTimeout(() => this.#node.disconnect(), 100);
    this.#finish();
  }

  #take(event) {
    if (this.#over) return;
    if (event.type === "taken") {
      this.#taken = event.samples;
      this.#more();
    } else if (event.type === "first") {
      const since = Math.max(0, this.#context.currentTime - event.at_s);
      this.#events.first(performance.now() - 1000 * since);
    } else if (event.type === "segment") this.#events.segment(event.segment);
    else if (event.type === "stall") this.#events.stall();
    else if (event.type === "over") {
      this.#finish();
      this.#node.disconnect();
      this.#events.over();
    }
  }

  #listen() {
    if (!this.#over && this.#context.state !== "running") this.#events.noOutput();
  }

  #fail() {
    this.#finish();
    this.#events.failed("The browser stopped playback with an error.");
  }

  #finish() {
    this.#over = true;
    this.#more();
  }
}
