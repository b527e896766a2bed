/**
 * Record what a page really plays and receives, before any script of its own runs.
 *
 * It is written into each new document as text, so it may use nothing from outside itself. Its
 * records come from the samples that reach the audio graph's end, from the bytes that arrive and from
 * the browser's own clock; what the page reports of itself is only recorded beside it.
 *
 * @param {{without: string[]}} options names of browser interfaces that are missing in this page
 */
export function recordAudio({ without }) {
  const SPEECH = "/v1/audio/speech";
  // The longest that an analyser remembers: 1.3 s at 24 kHz, so that a late look loses nothing.
  const MEMORY = 32768;
  const LOOK_MS = 100;
  const BLOCK_S = 0.005;
  const SENT_RATE = 24000;
  // Speech is far above it; a buffer that ran dry is zero.
  const LOUD = 0.001;
  const records = { pressed: null, taps: [], answers: [], states: [], paths: [], speaking: [], refusals: [] };

  for (const name of without) {
    if (name === "AudioWorklet") delete BaseAudioContext.prototype.audioWorklet;
    if (name === "mediaDevices") delete Navigator.prototype.mediaDevices;
    delete globalThis[name];
  }

  const tap = (node, context) => {
    const analyser = new AnalyserNode(context, { fftSize: MEMORY });
    plug.call(node, analyser);
    const mine = { context, analyser, seen: context.currentTime, blocks: [], lost_s: 0 };
    records.taps.push(mine);
    setInterval(look, LOOK_MS, mine);
  };

  const look = (mine) => {
    const { context, analyser } = mine;
    const samples = new Float32Array(MEMORY);
    const [wall, now] = [performance.now(), context.currentTime];
    analyser.getFloatTimeDomainData(samples);
    const fresh = Math.round((now - mine.seen) * context.sampleRate);
    mine.lost_s += Math.max(0, fresh - MEMORY) / context.sampleRate;
    const size = Math.round(BLOCK_S * context.sampleRate);
    const begin = MEMORY - Math.min(fresh, MEMORY);
    for (let at = begin; at < MEMORY; at += size) {
      const peak = peakOf(samples.subarray(at, Math.min(at + size, MEMORY)));
      // When this block was rendered, on the clock that presses use.
      mine.blocks.push([wall - ((MEMORY - at) / context.sampleRate) * 1000, peak]);
    }
    mine.seen = now;
  };

  const peakOf = (samples) => samples.reduce((most, one) => Math.max(most, Math.abs(one)), 0);

  const plug = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (to, ...more) {
    const end = plug.call(this, to, ...more);
    if (to instanceof AudioDestinationNode) tap(this, this.context);
    return end;
  };

  // An <audio> element that the page has not connected to a graph would bypass the recorder.
  const led = new WeakSet();
  const lead = AudioContext.prototype.createMediaElementSource;
  AudioContext.prototype.createMediaElementSource = function (element) {
    led.add(element);
    return lead.call(this, element);
  };
  const contexts = new WeakMap();
  const play = HTMLMediaElement.prototype.play;
  HTMLMediaElement.prototype.play = function () {
    if (!led.has(this)) {
      const context = new AudioContext();
      contexts.set(this, context);
      context.createMediaElementSource(this).connect(context.destination);
    }
    // One that was created a moment before the first press counted would be silent for ever.
    contexts.get(this)?.resume();
    return play.call(this);
  };

  const ask = globalThis.fetch;
  globalThis.fetch = async function (where, options) {
    const url = new URL(where instanceof Request ? where.url : where, location.href);
    if (!url.pathname.endsWith(SPEECH)) return ask.call(this, where, options);
    const answer = { request: JSON.parse(options.body), at: performance.now(), chunks: [] };
    records.answers.push(answer);
    const response = await ask.call(this, where, options);
    answer.status = response.status;
    answer.type = response.headers.get("content-type");
    if (!response.body) return response;
    const counter = new TransformStream({
      transform(chunk, out) {
        answer.chunks.push([performance.now(), chunk.slice()]);
        out.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(counter), response);
  };

  const press = (event) => {
    if (event.isTrusted) records.pressed = event.timeStamp;
  };
  addEventListener("click", press, true);
  addEventListener("keydown", press, true);
  addEventListener("securitypolicyviolation", (event) => {
    records.refusals.push(`${event.violatedDirective}: ${event.blockedURI} at ${event.sourceFile}`);
  });

  const watch = () => {
    const main = document.querySelector("main");
    note(records.states, main?.dataset.state ?? "");
    note(records.paths, main?.dataset.path ?? "");
    note(records.speaking, document.querySelector("#speaking")?.textContent.trim() ?? "");
  };
  const note = (list, value) => {
    if (list.at(-1)?.[1] !== value) list.push([performance.now(), value]);
  };
  new MutationObserver(watch).observe(document, {
    subtree: true,
    childList: true,
    characterData: true,
    attributes: true,
    attributeFilter: ["data-state", "data-path"],
  });

  /** Return the first and last loud moment of blocks of sound, and the longest silence between. */
  const outline = (blocks) => {
    const loud = blocks.filter(([, peak]) => peak > LOUD).map(([at]) => at);
    const pauses = loud.slice(1).map((at, index) => at - loud[index]);
    const peak = blocks.reduce((most, [, one]) => Math.max(most, one), 0);
    if (!loud.length) return { peak, first: null, last: null, longest_ms: null };
    return { peak, first: loud[0], last: loud.at(-1), longest_ms: Math.max(0, ...pauses) };
  };

  /** Return the content of an event stream: its sound's outline, and each piece with its time. */
  const readEvents = (chunks) => {
    const sound = new Sound();
    const pieces = [];
    for (const [at, event] of eventsOf(chunks)) {
      if (event.text !== undefined) pieces.push({ offset_ms: sound.ms, at, text: event.text });
      if (event.audio !== undefined) sound.add(event.audio);
    }
    return { audio_ms: sound.ms, pieces, sound: outline(sound.blocks) };
  };

  /** Yield each event of a response, with the moment at which its last byte came. */
  function* eventsOf(chunks) {
    const decoder = new TextDecoder();
    let rest = "";
    for (const [at, chunk] of chunks) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data: {")) yield [at, JSON.parse(line.slice(6))];
      }
    }
  }

  /** The sound of a response, in blocks as the taps have them. */
  class Sound {
    #samples = 0;
    #peak = 0;
    blocks = [];

    get ms() {
      return (this.#samples / SENT_RATE) * 1000;
    }

    add(base64) {
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 1 < bytes.length; at += 2) {
        this.#peak = Math.max(this.#peak, Math.abs(view.getInt16(at, true)) / 32768);
        this.#samples += 1;
        if (this.#samples % (BLOCK_S * SENT_RATE) === 0) {
          this.blocks.push([this.ms - BLOCK_S * 1000, this.#peak]);
          this.#peak = 0;
        }
      }
    }
  }

  const describe = (answer) => ({
    request: answer.request,
    status: answer.status,
    type: answer.type,
    at: answer.at,
    first_byte: answer.chunks.at(0)?.[0] ?? null,
    last_byte: answer.chunks.at(-1)?.[0] ?? null,
    bytes: answer.chunks.reduce((sum, [, chunk]) => sum + chunk.length, 0),
    ...(answer.type?.startsWith("text/event-stream") ? readEvents(answer.chunks) : {}),
  });

  globalThis.__audio = {
    /** Forget what was audible so far; presses and responses from now on are of the next speech. */
    clear() {
      records.taps.forEach((mine) => {
        look(mine);
        mine.blocks = [];
        mine.lost_s = 0;
      });
      Object.assign(records, { pressed: null, answers: [], states: [], paths: [], speaking: [] });
      watch();
    },
    /** Return whether something was loud within the last tenth of a second. */
    loud() {
      records.taps.forEach(look);
      const since = performance.now() - 100;
      const now = ([at, peak]) => at > since && peak > LOUD;
      return records.taps.some((mine) => mine.blocks.slice(-20).some(now));
    },
    /** Return when each stretch of sound began and ended; a pause of this many ms divides them. */
    stretches(pause_ms) {
      records.taps.forEach(look);
      const all = records.taps.flatMap((mine) => mine.blocks).sort(([one], [two]) => one - two);
      const found = [];
      for (const [at] of all.filter(([, peak]) => peak > LOUD)) {
        if (found.length && at - found.at(-1)[1] < pause_ms) found.at(-1)[1] = at;
        else found.push([at, at]);
      }
      return found;
    },
    /** Return whether a response's last event came; the page need not read on to its very end. */
    answered() {
      const last = ({ chunks }) => new TextDecoder().decode(chunks.at(-1)?.[1]);
      return records.answers.some((answer) => last(answer).includes("speech.audio.done"));
    },
    /** Return all of it, in milliseconds on the clock of `pressed`. */
    report() {
      records.taps.forEach(look);
      const blocks = records.taps.flatMap((mine) => mine.blocks).sort(([one], [two]) => one - two);
      return {
        pressed: records.pressed,
        epoch: performance.timeOrigin,
        heard: outline(blocks),
        lost_s: records.taps.reduce((sum, mine) => sum + mine.lost_s, 0),
        answers: records.answers.map(describe),
        states: records.states,
        paths: records.paths,
        speaking: records.speaking,
        refusals: records.refusals,
      };
    },
  };
}
