// The audio thread of a call: the microphone at 24 kHz, and the house's voice.
/* global AudioWorkletProcessor, registerProcessor, sampleRate */

const RATE = 24000;
const CHUNK = 480;

/** Turns blocks at any rate into chunks of 20 ms at 24 kHz, by linear interpolation. */
class Resampler {
  #step;
  #at = 0;
  #last = 0;
  #chunk = new Int16Array(CHUNK);
  #filled = 0;

  constructor(rate) {
    this.#step = rate / RATE;
  }

  /** Add one block of one channel; return the chunks that it completes. */
  add(samples) {
    const chunks = [];
    // Position 0 is the last sample of the block before.
    while (this.#at < samples.length) {
      const index = Math.floor(this.#at);
      const before = index ? samples[index - 1] : this.#last;
      const level = before + (samples[index] - before) * (this.#at - index);
      this.#put(level, chunks);
      this.#at += this.#step;
    }
    this.#at -= samples.length;
    this.#last = samples[samples.length - 1];
    return chunks;
  }

  #put(level, chunks) {
    this.#chunk[this.#filled] = Math.round(Math.max(-1, Math.min(1, level)) * 32767);
    this.#filled += 1;
    if (this.#filled < CHUNK) return;
    chunks.push(this.#chunk);
    this.#chunk = new Int16Array(CHUNK);
    this.#filled = 0;
  }
}

class CallMicrophone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate);
  }

  process([channels]) {
    for (const chunk of channels.length ? this.resampler.add(channels[0]) : []) {
      this.port.postMessage(chunk, [chunk.buffer]);
    }
    return true;
  }
}

/** Plays what it gets, one piece after the other, and counts what was played of each item. */
class CallVoice extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = [];
    this.offset = 0;
    this.item = null;
    this.played = 0;
    this.port.onmessage = ({ data }) => this.take(data);
  }

  take(data) {
    if (data.type === "play") {
      this.queue.push(data);
      return;
    }
    // Only an item with sound left was interrupted.
    const cut = this.queue.length ? { item: this.item, played: this.played } : {};
    this.queue = [];
    this.offset = 0;
    this.port.postMessage({ type: "stopped", ...cut });
  }

  process(_inputs, [[out]]) {
    let at = 0;
    while (at < out.length && this.queue.length) {
      const { samples, item } = this.queue[0];
      if (item !== this.item) {
        this.item = item;
        this.played = 0;
        this.port.postMessage({ type: "started", item });
      }
      const count = Math.min(out.length - at, samples.length - this.offset);
      out.set(samples.subarray(this.offset, this.offset + count), at);
      at += count;
      this.offset += count;
      this.played += count;
      if (this.offset === samples.length) {
        this.queue.shift();
        this.offset = 0;
        if (!this.queue.length) this.port.postMessage({ type: "empty", item });
      }
    }
    return true;
  }
}

registerProcessor("hearth-call-microphone", CallMicrophone);
registerProcessor("hearth-call-voice", CallVoice);
