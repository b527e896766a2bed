// The audio output: a worklet that plays sound as it arrives, or an element for whole speech.

import { BlobSink } from "./blob_sink.mjs";
import { wavOf } from "./pcm.mjs";
import { WorkletSink } from "./worklet_sink.mjs";

export const RATE = 24000;
const IDLE_MS = 60000;

/** The page's one audio context, which is created at the first user action. */
export class AudioOutput {
  #context = null;
  #worklet = null;
  #idle = null;
  #element = null;
  #silence = null;
  #playing = 0;

  /** Create the context and load the worklet; repeated calls do nothing. */
  prepare() {
    if (this.#context) return;
    try {
      this.#context = new AudioContext({ sampleRate: RATE, latencyHint: "balanced" });
    } catch {
      return; // none at all, or none of that rate: an element resamples by itself
    }
    this.analyser = this.#context.createAnalyser();
    this.analyser.fftSize = 1024;
    this.analyser.connect(this.#context.destination);
    this.#worklet = this.#load();
    this.#rest();
  }

  /** Return a sink for one speech, until `close`; browsers allow sound only in a user action. */
  async open(events) {
    this.#playing += 1;
    this.wake();
    if (!hasWorklet()) this.#unlock();
    if (await this.#worklet) return new WorkletSink(this.#context, this.analyser, events);
    return new BlobSink(this.#speaker(), RATE, events);
  }

  /** Resume the sound, because a speech may start soon; call it in a user action. */
  wake() {
    this.prepare();
    // Without a sound device this never ends, so it is not awaited.
    this.#context?.resume().catch(() => {});
    this.#rest();
  }

  /** Mark the end of a speech. */
  close() {
    this.#playing -= 1;
    this.#rest();
  }

  // After a while without sound the context is suspended, which saves a phone's battery.
  #rest() {
    clearTimeout(this.#idle);
    if (this.#playing > 0) return;
    this.#idle = setTimeout(() => this.#context?.suspend(), IDLE_MS);
  }

  async #load() {
    if (!hasWorklet()) return false;
    const module = new URL("worklet.mjs", import.meta.url);
    // A page that is older than its server may not find the file; it still speaks.
    return this.#context.audioWorklet.addModule(module).then(
      () => true,
      () => false,
    );
  }

  #speaker() {
    if (!this.#element) {
      this.#element = new Audio();
      // Through the analyser, so that the meter moves here, too.
      this.#context?.createMediaElementSource(this.#element).connect(this.analyser);
    }
    return this.#element;
  }

  #unlock() {
    // Browsers let an element play later if it already played in a user action.
    this.#silence ??= URL.createObjectURL(wavOf([new Uint8Array(480)], RATE));
    const element = this.#speaker();
    element.src = this.#silence;
    element.play().catch(() => {});
  }
}

function hasWorklet() {
  const { AudioContext, AudioWorklet, AudioWorkletNode } = globalThis;
  return Boolean(AudioWorklet && AudioWorkletNode && "audioWorklet" in AudioContext.prototype);
}
