// Converts the microphone's audio to mono Int16 on the browser's audio thread.
/* global AudioWorkletProcessor, registerProcessor, sampleRate */

const CHUNK_S = 0.032;

/** Joins blocks into chunks of 32 ms; the mean of `every` samples becomes one sample. */
class Downsampler {
  #every;
  #chunk;
  #filled = 0;
  #sum = 0;
  #summed = 0;

  constructor(rate, every = 1) {
    this.#every = every;
    this.#chunk = new Int16Array(Math.round((CHUNK_S * rate) / every));
  }

  /** Add one block, given as its channels; return the chunks that it completes. */
  add(channels) {
    const chunks = [];
    for (let i = 0; i < channels[0].length; i += 1) {
      let sum = 0;
      for (const channel of channels) sum += channel[i];
      this.#sum += sum / channels.length;
      this.#summed += 1;
      if (this.#summed === this.#every) this.#put(chunks);
    }
    return chunks;
  }

  #put(chunks) {
    const level = Math.max(-1, Math.min(1, this.#sum / this.#every));
    this.#chunk[this.#filled] = Math.round(level * 32767);
    this.#filled += 1;
    this.#sum = 0;
    this.#summed = 0;
    if (this.#filled < this.#chunk.length) return;
    chunks.push(this.#chunk);
    this.#chunk = new Int16Array(this.#chunk.length);
    this.#filled = 0;
  }
}

class Microphone extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.downsampler = new Downsampler(sampleRate, processorOptions.every);
  }

  process([channels]) {
    // There are no channels before the microphone starts, and after it stops.
    for (const samples of channels.length ? this.downsampler.add(channels) : []) {
      this.port.postMessage(samples, [samples.buffer]);
    }
    return true;
  }
}

registerProcessor("hearth-microphone", Microphone);
