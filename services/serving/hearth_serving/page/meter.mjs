// A level meter: the last seconds as bars, the newest on the right.

const STEP_MS = 50;
const CALM_STEP_MS = 250;
const BAR = 3;
const GAP = 2;

/** Return the height of a bar, 0 to 1, for some samples; it is logarithmic, like hearing. */
export function heightOf(samples) {
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  const decibels = 10 * Math.log10(power + 1e-9);
  return Math.min(1, Math.max(0, (decibels + 50) / 40));
}

/** Draws the level of an analyser; stopped, it takes no processor time. */
export class Meter {
  #canvas;
  #analyserOf;
  #bars = [];
  #timer = null;
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /** `analyserOf` returns the analyser, or nothing before there is one. */
  constructor(canvas, analyserOf) {
    this.#canvas = canvas;
    this.#analyserOf = analyserOf;
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** Start to draw. */
  start() {
    this.#bars = [];
    clearInterval(this.#timer);
    const step = this.#still.matches ? CALM_STEP_MS : STEP_MS;
    this.#timer = setInterval(() => this.#step(), step);
  }

  /** Stop, and draw silence. */
  stop() {
    clearInterval(this.#timer);
    this.#bars = [];
    this.#draw();
  }

  #step() {
    const analyser = this.#analyserOf();
    if (!analyser) return;
    const samples = new Float32Array(analyser.fftSize);
    analyser.getFloatTimeDomainData(samples);
    this.#bars.unshift(heightOf(samples));
    this.#draw();
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scale = globalThis.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    const count = Math.floor(width / (BAR + GAP));
    this.#bars.length = Math.min(this.#bars.length, count);
    const pen = this.#canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.fillStyle = getComputedStyle(this.#canvas).color;
    // With reduced motion, one bar changes its width in place.
    if (this.#still.matches) {
      pen.fillRect(0, height / 2 - 3, Math.max(6, width * (this.#bars[0] ?? 0)), 6);
      return;
    }
    for (let i = 0; i < count; i += 1) {
      const tall = Math.max(BAR, height * (this.#bars[i] ?? 0));
      pen.beginPath();
      pen.roundRect(width - (i + 1) * (BAR + GAP), (height - tall) / 2, BAR, tall, BAR / 2);
      pen.fill();
    }
  }
}
