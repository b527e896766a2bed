/**
 * Record what a page that makes calls hears and receives, before any script of its own runs.
 *
 * It is written into each new document as text, so it may use nothing from outside itself. The
 * loudness of the microphone comes from its samples, and events from the socket; sound in them is
 * only counted. What the page plays is recorded by `audio_recorder.mjs`.
 */
export function recordCalls() {
  const LOOK_MS = 100;
  const BLOCK_S = 0.005;
  const LOUD = 0.02;
  const SOUND = "response.output_audio.delta";
  const records = { loud: [], events: [], shown: [] };

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
      if (isLoud) records.loud.push(wall - ((samples.length - at - size) / context.sampleRate) * 1000);
    }
    tap.seen = now;
  };

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      if (!new URL(given[0], location.href).pathname.endsWith("/realtime")) return;
      this.addEventListener("message", ({ data }) => note(JSON.parse(data)));
      this.addEventListener("close", ({ code }) => note({ type: "closed", code }));
    }
  };

  const note = (event) => {
    const { delta, ...rest } = event;
    const samples = event.type === SOUND ? Math.floor((delta.length * 3) / 8) : undefined;
    records.events.push({ at: performance.now(), ...(samples === undefined ? event : { ...rest, samples }) });
  };

  const text = (one) => one?.innerText.trim() ?? "";
  const watch = () => {
    const status = document.querySelector("#status, .bridge-call .status-label");
    const alert = document.querySelector("#status.alert, .call-error [role=alert]");
    const state = document.querySelector("main")?.dataset.state ?? "";
    const now = [state, text(status), text(alert)];
    if (JSON.stringify(records.shown.at(-1)?.slice(1)) !== JSON.stringify(now)) {
      records.shown.push([performance.now(), ...now]);
    }
  };
  new MutationObserver(watch).observe(document, {
    ...{ subtree: true, childList: true, characterData: true, attributes: true },
    attributeFilter: ["data-state", "class"],
  });

  globalThis.__call = {
    /** Return how many events of a type came. */
    count: (type) => records.events.filter((event) => event.type === type).length,
    /** Return all of it, in milliseconds on the page's clock. */
    report() {
      const lines = [...document.querySelectorAll("#lines li")].map((line) => ({
        ...{ item: line.dataset.item, who: line.className, text: text(line) },
      }));
      const bars = [...document.querySelectorAll("#stages li")].map(text);
      const turns = document.querySelectorAll("#turns li").length;
      const meter = { total: text(document.querySelector("#total")), bars, turns };
      return { ...records, lines, meter, now: performance.now() };
    },
  };
}
