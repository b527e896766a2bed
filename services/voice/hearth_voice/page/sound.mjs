// The microphone and the loudspeaker of one call.

const RATE = 24000;
const CONSTRAINTS = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
const REASONS = {
  NotAllowedError: "Microphone access is blocked: allow it in the address bar, then press Call.",
  NotFoundError: "No microphone found: connect one, then press Call.",
  NotReadableError: "The microphone is not available: another program may be using it.",
};

/** Why there is no sound, in one line for a person. */
export class SoundError extends Error {
  constructor(message) {
    super(message);
    this.name = "SoundError";
  }
}

/** Both directions of sound; `onMicrophone` takes Int16 at 24 kHz, `onVoice` what the voice does. */
export class Sound {
  #stream;
  #contexts = [];
  #voice;

  /** Open the microphone and the loudspeaker; raises SoundError. */
  async open(onMicrophone, onVoice) {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new SoundError("Browsers allow the microphone only on https:// and on localhost.");
    }
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: CONSTRAINTS });
    } catch (error) {
      throw new SoundError(REASONS[error.name] ?? "The microphone cannot be opened.");
    }
    // The microphone keeps its own rate, which Firefox requires.
    const ears = await this.#context({});
    const source = ears.createMediaStreamSource(this.#stream);
    const microphone = new AudioWorkletNode(ears, "hearth-call-microphone", { numberOfOutputs: 0 });
    microphone.port.onmessage = ({ data }) => onMicrophone(data);
    this.analyser = ears.createAnalyser();
    this.analyser.fftSize = 1024;
    source.connect(this.analyser);
    source.connect(microphone);
    const mouth = await this.#context({ sampleRate: RATE });
    this.#voice = new AudioWorkletNode(mouth, "hearth-call-voice", { outputChannelCount: [1] });
    this.#voice.port.onmessage = ({ data }) => onVoice(data);
    this.#voice.connect(mouth.destination);
  }

  /** Play samples of an item after all that was given before. */
  play(item, samples) {
    this.#voice.port.postMessage({ type: "play", item, samples }, [samples.buffer]);
  }

  /** Be silent at once; `onVoice` then learns what was played of the item. */
  stop() {
    this.#voice.port.postMessage({ type: "stop" });
  }

  /** How long samples are on their way to the ear, in milliseconds. */
  get latencyMs() {
    return 1000 * (this.#contexts[1]?.outputLatency ?? 0);
  }

  /** Release both, which ends the browser's recording indicator. */
  close() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    for (const context of this.#contexts) context.close().catch(() => {});
  }

  async #context(options) {
    const context = new AudioContext({ ...options, latencyHint: "interactive" });
    this.#contexts.push(context);
    context.resume().catch(() => {});
    await context.audioWorklet.addModule(new URL("worklet.mjs", import.meta.url));
    return context;
  }
}
