// Plays a complete speech by an audio element: for browsers without an audio worklet, and for
// pages without HTTPS, where browsers disable it.

import { wavOf } from "./pcm.mjs";

const LOOK_MS = 50;

/** Plays one whole speech; `events` has first, segment, over and failed. */
export class BlobSink {
  #element;
  #rate;
  #events;
  #parts = [];
  #bytes = 0;
  #marks = [];
  #url = "";
  #looking = null;
  #heard = false;

  constructor(element, rate, events) {
    this.path = "blob";
    this.#element = element;
    this.#rate = rate;
    this.#events = events;
  }

  /** Append bytes; `segment` is the number of the segment that starts here, or null. */
  push(bytes, segment) {
    if (segment !== null) this.#marks.push({ at_s: this.#bytes / 2 / this.#rate, segment });
    this.#parts.push(bytes);
    this.#bytes += bytes.byteLength;
  }

  /** Never waits: all sound is needed before it plays. */
  async room() {}

  /** Play the sound. */
  end() {
    const element = this.#element;
    element.onplaying = () => this.#started();
    element.onended = () => {
      this.stop();
      this.#events.over();
    };
    element.onerror = () => this.#fail("This browser cannot play the audio.");
    this.#url = URL.createObjectURL(wavOf(this.#parts, this.#rate));
    element.src = this.#url;
    element.play().catch((error) => {
      if (error.name !== "AbortError") this.#fail("The browser blocked playback. Press Speak again.");
    });
  }

  /** Stop the sound. */
  stop() {
    clearInterval(this.#looking);
    const element = this.#element;
    element.onplaying = element.onended = element.onerror = null;
    element.pause();
    // Only this URL: before the end, the element holds the shared silence of the audio output.
    URL.revokeObjectURL(this.#url);
    element.removeAttribute("src");
  }

  #started() {
    // The element repeats this event after each pause for data.
    if (this.#heard) return;
    this.#heard = true;
    this.#events.first(performance.now());
    this.#look();
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
  }

  #look() {
    while (this.#marks.length > 0 && this.#marks[0].at_s <= this.#element.currentTime) {
      this.#events.segment(this.#marks.shift().segment);
    }
  }

  #fail(message) {
    this.stop();
    this.#events.failed(message);
  }
}
