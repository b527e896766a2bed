// Takes the microphone's sound on the browser's audio thread, as the server wants it: Int16, mono.
/* global AudioWorkletProcessor, registerProcessor, sampleRate */

import { Grinder } from "./grinder.mjs";

class Microphone extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.grinder = new Grinder(sampleRate, processorOptions.every);
  }

  process([channels]) {
    // No channels: the microphone is not there yet, or there no more.
    for (const samples of channels.length ? this.grinder.take(channels) : []) {
      this.port.postMessage(samples, [samples.buffer]);
    }
    return true;
  }
}

registerProcessor("hearth-microphone", Microphone);
