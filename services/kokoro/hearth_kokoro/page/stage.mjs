// Where sound comes out: an audio worklet that plays it as it comes, or an element for the whole.

import { BlobSink } from "./blob_sink.mjs";
import { wavOf } from "./sound.mjs";
import { WorkletSink } from "./worklet_sink.mjs";

export const RATE = 24000;
const IDLE_MS = 60000;

/** The browser's sound of this page: one audio context, made when somebody first touches it. */
export class Stage {
  #context = null;
  #worklet = null;
  #idle = null;
  #element = null;
  #silence = null;
  #playing = 0;

  /** Make the context and load the worklet; any number of times. */
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

  /** Return what plays one speech, until `close`; called in a press, or browsers stay silent. */
  async open(notes) {
    this.#playing += 1;
    this.wake();
    if (!hasWorklet()) this.#unlock();
    if (await this.#worklet) return new WorkletSink(this.#context, this.analyser, notes);
    return new BlobSink(this.#speaker(), RATE, notes);
  }

  /** Let the sound run, because something may soon be played; within a press. */
  wake() {
    this.prepare();
    // Without any sound device this never ends, so nobody waits for it.
    this.#context?.resume().catch(() => {});
    this.#rest();
  }

  /** Say that a speech has ended. */
  close() {
    this.#playing -= 1;
    this.#rest();
  }

  // Where nothing plays for a while the sound sleeps, which spares a phone's battery.
  #rest() {
    clearTimeout(this.#idle);
    if (this.#playing > 0) return;
    this.#idle = setTimeout(() => this.#context?.suspend(), IDLE_MS);
  }

  async #load() {
    if (!hasWorklet()) return false;
    const module = new URL("worklet.mjs", import.meta.url);
    // A page that is older than its server finds no such file any more; it speaks all the same.
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
    // The whole comes long after the press; an element that played within it may play then.
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
