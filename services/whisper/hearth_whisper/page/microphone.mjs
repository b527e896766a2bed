// The microphone: asked for when somebody talks, and let go when the talk ends.

const WANTED_RATE = 16000;
// The server takes no more; a studio's microphone may have 192 kHz.
const MOST_RATE = 48000;
const WANTED = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };

const REASONS = {
  NotAllowedError: "Microphone access is blocked: allow it in the address bar, then press Talk.",
  NotFoundError: "No microphone found: connect one, then press Talk.",
  NotReadableError: "The microphone is not available: another program may be using it.",
};

/** Why nothing can be heard, in one line for a person. */
export class MicrophoneError extends Error {
  constructor(message) {
    super(message);
    this.name = "MicrophoneError";
  }
}

/** One microphone, listening until `close`. */
export class Microphone {
  #stream;
  #context;

  constructor(stream, context, rate, analyser) {
    this.#stream = stream;
    this.#context = context;
    this.rate = rate;
    this.analyser = analyser;
  }

  /** Let it go: the browser shows no more that the page listens. */
  close() {
    for (const track of this.#stream.getTracks()) track.stop();
    this.#context.close().catch(() => {});
  }
}

/** Ask for the microphone; `heard` takes Int16 samples, `gone` is told when it is pulled out. */
export async function listen(heard, gone) {
  const stream = await streamOf(navigator.mediaDevices);
  const { context, source } = contextOf(stream);
  try {
    // Within the press, or the browser keeps it asleep.
    context.resume().catch(() => {});
    await context.audioWorklet.addModule(new URL("worklet.mjs", import.meta.url));
  } catch {
    for (const track of stream.getTracks()) track.stop();
    context.close().catch(() => {});
    throw new MicrophoneError("This page is out of date: reload it.");
  }
  const every = Math.ceil(context.sampleRate / MOST_RATE);
  const node = new AudioWorkletNode(context, "hearth-microphone", {
    ...{ numberOfInputs: 1, numberOfOutputs: 0 },
    processorOptions: { every },
  });
  node.port.onmessage = ({ data }) => heard(data);
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  source.connect(analyser);
  source.connect(node);
  for (const track of stream.getTracks()) track.onended = gone;
  return new Microphone(stream, context, Math.round(context.sampleRate / every), analyser);
}

async function streamOf(devices) {
  if (!devices?.getUserMedia) {
    const why = globalThis.isSecureContext === false ? INSECURE : NONE;
    throw new MicrophoneError(why);
  }
  try {
    return await devices.getUserMedia({ audio: WANTED });
  } catch (error) {
    throw new MicrophoneError(REASONS[error.name] ?? "The microphone cannot be opened.");
  }
}

const NONE = "This browser has no microphone access. Use another browser, or transcribe a file.";
const INSECURE =
  "Browsers allow the microphone only on https:// and on localhost: open that address, " +
  "or transcribe a file.";

function contextOf(stream) {
  // Firefox connects a microphone only at its own rate; which one that is, the server is told.
  for (const options of [{ sampleRate: WANTED_RATE }, {}]) {
    let context;
    try {
      context = new AudioContext({ ...options, latencyHint: "interactive" });
      return { context, source: context.createMediaStreamSource(stream) };
    } catch {
      context?.close().catch(() => {});
    }
  }
  for (const track of stream.getTracks()) track.stop();
  throw new MicrophoneError("This browser cannot read the microphone.");
}
