// Plays a speech when all of it is here, by an audio element: for browsers without a worklet, and
// for addresses without HTTPS, where browsers hide theirs.

import { wavOf } from "./sound.mjs";

const LOOK_MS = 50;

/** One whole speech; `notes` hears first, piece, over and broke. */
export class BlobSink {
  #element;
  #rate;
  #notes;
  #parts = [];
  #bytes = 0;
  #marks = [];
  #url = "";
  #looking = null;
  #heard = false;

  constructor(element, rate, notes) {
    this.path = "blob";
    this.#element = element;
    this.#rate = rate;
    this.#notes = notes;
  }

  /** Keep these bytes; a piece of text begins with its first bytes. */
  push(bytes, piece) {
    if (piece !== null) this.#marks.push({ at_s: this.#bytes / 2 / this.#rate, piece });
    this.#parts.push(bytes);
    this.#bytes += bytes.byteLength;
  }

  /** Everything is wanted. */
  async room() {}

  /** Play what came. */
  end() {
    const element = this.#element;
    element.onplaying = () => this.#begin();
    element.onended = () => {
      this.stop();
      this.#notes.over();
    };
    element.onerror = () => this.#broke("This browser cannot play the audio.");
    this.#url = URL.createObjectURL(wavOf(this.#parts, this.#rate));
    element.src = this.#url;
    element.play().catch((error) => {
      if (error.name !== "AbortError") this.#broke("The browser blocked playback. Press Speak again.");
    });
  }

  /** Be silent now. */
  stop() {
    clearInterval(this.#looking);
    const element = this.#element;
    element.onplaying = element.onended = element.onerror = null;
    element.pause();
    // Its own: until the whole is there, the element holds what the stage keeps for all.
    URL.revokeObjectURL(this.#url);
    element.removeAttribute("src");
  }

  #begin() {
    // After a pause for data it says so again.
    if (this.#heard) return;
    this.#heard = true;
    this.#notes.first(performance.now());
    this.#look();
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
  }

  #look() {
    while (this.#marks.length > 0 && this.#marks[0].at_s <= this.#element.currentTime) {
      this.#notes.piece(this.#marks.shift().piece);
    }
  }

  #broke(message) {
    this.stop();
    this.#notes.broke(message);
  }
}
