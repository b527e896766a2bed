// Plays one speech on the browser's audio thread, and tells the page what is being heard.
/* global AudioWorkletProcessor, currentFrame, registerProcessor, sampleRate */

import { SoundQueue } from "./queue.mjs";

const RESUME_S = 0.2;
const REPORT_S = 0.25;

class Speech extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = new SoundQueue(RESUME_S * sampleRate);
    this.stopping = false;
    this.untold = 0;
    this.port.onmessage = ({ data }) => this.take(data);
  }

  take(data) {
    if (data.type === "stop") this.stopping = true;
    else if (data.type === "end") this.queue.end();
    else this.queue.push(data.samples, data.piece);
  }

  process(_inputs, [[out]]) {
    for (const note of this.queue.pull(out)) {
      this.port.postMessage({ ...note, at_s: (currentFrame + note.at) / sampleRate });
    }
    if (this.stopping) {
      // One block, 5 ms, down to nothing: cut off at once, it would click.
      for (let i = 0; i < out.length; i += 1) out[i] *= 1 - (i + 1) / out.length;
      return false;
    }
    this.untold += out.length;
    if (this.untold >= REPORT_S * sampleRate) {
      this.port.postMessage({ type: "taken", samples: this.queue.taken });
      this.untold = 0;
    }
    return !this.queue.over;
  }
}

registerProcessor("hearth-speech", Speech);
