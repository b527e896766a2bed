// Plays one speech on the browser's audio thread, and reports its progress to the page.
/* global AudioWorkletProcessor, currentFrame, registerProcessor, sampleRate */

import { SampleQueue } from "./sample_queue.mjs";

const RESUME_S = 0.2;
const REPORT_S = 0.25;

class Speech extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = new SampleQueue(RESUME_S * sampleRate);
    this.stopping = false;
    this.unreported = 0;
    this.port.onmessage = ({ data }) => this.take(data);
  }

  take(data) {
    if (data.type === "stop") this.stopping = true;
    else if (data.type === "end") this.queue.end();
    else this.queue.push(data.samples, data.segment);
  }

  process(_inputs, [[out]]) {
    for (const event of this.queue.pull(out)) {
      this.port.postMessage({ ...event, at_s: (currentFrame + event.at) / sampleRate });
    }
    if (this.stopping) {
      // Fade out over one block (5 ms): an abrupt end would click.
      for (let i = 0; i < out.length; i += 1) out[i] *= 1 - (i + 1) / out.length;
      return false;
    }
    this.unreported += out.length;
    if (this.unreported >= REPORT_S * sampleRate) {
      this.port.postMessage({ type: "taken", samples: this.queue.taken });
      this.unreported = 0;
    }
    return !this.queue.over;
  }
}

registerProcessor("hearth-speech", Speech);
