/**
 * Record the input and the messages of a page that listens, before any script of its own runs.
 *
 * It is written into each new document as text, so it may use nothing from outside itself. The
 * loudness of the microphone comes from its samples, the messages from the socket, the text from the
 * document; what the page measures itself is only recorded beside it.
 */
export function recordRecognition() {
  const LOOK_MS = 100;
  const BLOCK_S = 0.005;
  const LOUD = 0.01;
  const records = { loud: [], events: [], sent: 0, rows: [], guesses: [], states: [] };

  const plug = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (to, ...more) {
    if (this instanceof MediaStreamAudioSourceNode && to instanceof AudioWorkletNode) {
      const analyser = new AnalyserNode(this.context, { fftSize: 32768 });
      plug.call(this, analyser);
      setInterval(look, LOOK_MS, { analyser, context: this.context, seen: this.context.currentTime });
    }
    return plug.call(this, to, ...more);
  };

  const look = (tap) => {
    const { analyser, context } = tap;
    const samples = new Float32Array(analyser.fftSize);
    const [wall, now] = [performance.now(), context.currentTime];
    analyser.getFloatTimeDomainData(samples);
    const fresh = Math.min(samples.length, Math.round((now - tap.seen) * context.sampleRate));
    const size = Math.round(BLOCK_S * context.sampleRate);
    for (let at = samples.length - fresh; at < samples.length; at += size) {
      const isLoud = samples.subarray(at, at + size).some((one) => Math.abs(one) > LOUD);
      // When the end of this block was heard, on the clock of the page.
      const end = wall - ((samples.length - at - size) / context.sampleRate) * 1000;
      if (isLoud) records.loud.push(end);
    }
    tap.seen = now;
  };

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        records.events.push({ at: performance.now(), ...JSON.parse(data) });
      });
    }
    send(message) {
      if (typeof message !== "string") records.sent += message.byteLength;
      else records.start ??= JSON.parse(message);
      super.send(message);
    }
  };

  const watch = () => {
    note(records.rows, document.querySelectorAll("#finals li").length);
    note(records.guesses, document.querySelector("#partial")?.textContent ?? "");
    note(records.states, document.querySelector("main")?.dataset.state ?? "");
  };
  const note = (list, value) => {
    if (list.at(-1)?.[1] !== value) list.push([performance.now(), value]);
  };
  new MutationObserver(watch).observe(document, {
    ...{ subtree: true, childList: true, characterData: true },
    attributes: true,
    attributeFilter: ["data-state"],
  });

  globalThis.__recognition = {
    /** Return all of it, in milliseconds on the page's clock. */
    report() {
      const text = (id) => document.querySelector(id)?.textContent.trim() ?? null;
      const lines = [...document.querySelectorAll("#finals li")].map((row) => ({
        moment: row.querySelector(".time").textContent,
        text: row.querySelector(".text").textContent,
        felt: row.querySelector(".delay")?.textContent ?? null,
      }));
      const { state } = document.querySelector("main").dataset;
      const display = { state, status: text("#status"), latency: text("#latency") };
      return { ...records, lines, display };
    },
  };
}
