// Takes the microphone's sound on the browser's audio thread, as the server wants it: Int16, mono.
/* global AudioWorkletProcessor, registerProcessor, sampleRate */

const PART_S = 0.032;

/** Gathers blocks of sound into parts of 32 ms; of `every` samples it makes one, their mean. */
class Grinder {
  #every;
  #part;
  #filled = 0;
  #sum = 0;
  #summed = 0;

  constructor(rate, every = 1) {
    this.#every = every;
    this.#part = new Int16Array(Math.round((PART_S * rate) / every));
  }

  /** Take one block, given as its channels; return the parts that it filled. */
  take(channels) {
    const parts = [];
    for (let i = 0; i < channels[0].length; i += 1) {
      let both = 0;
      for (const channel of channels) both += channel[i];
      this.#sum += both / channels.length;
      this.#summed += 1;
      if (this.#summed === this.#every) this.#put(parts);
    }
    return parts;
  }

  #put(parts) {
    const loud = Math.max(-1, Math.min(1, this.#sum / this.#every));
    this.#part[this.#filled] = Math.round(loud * 32767);
    this.#filled += 1;
    this.#sum = 0;
    this.#summed = 0;
    if (this.#filled < this.#part.length) return;
    parts.push(this.#part);
    this.#part = new Int16Array(this.#part.length);
    this.#filled = 0;
  }
}

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
