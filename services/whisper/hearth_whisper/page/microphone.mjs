// The microphone, opened for one live session.

const WANTED_RATE = 16000;
// The server's limit; studio microphones may have 192 kHz.
const MAX_RATE = 48000;
const CONSTRAINTS = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };

const REASONS = {
  NotAllowedError: "Microphone access is blocked: allow it in the address bar, then press Talk.",
  NotFoundError: "No microphone found: connect one, then press Talk.",
  NotReadableError: "The microphone is not available: another program may be using it.",
};

/** Why there is no audio, in one line for a person. */
export class MicrophoneError extends Error {
  constructor(message) {
    super(message);
    this.name = "MicrophoneError";
  }
}

/** An open microphone. */
export class Microphone {
  #stream;
  #context;

  constructor(stream, context, rate, analyser) {
    this.#stream = stream;
    this.#context = context;
    this.rate = rate;
    this.analyser = analyser;
  }

  /** Release it, which ends the browser's recording indicator. */
  close() {
    for (const track of this.#stream.getTracks()) track.stop();
    this.#context.close().catch(() => {});
  }
}

/** Open the microphone; `onAudio` takes Int16 samples, `onDisconnect` reports its removal. */
export async function openMicrophone(onAudio, onDisconnect) {
  const stream = await streamOf(navigator.mediaDevices);
  const { context, source } = contextOf(stream);
  try {
    // Browsers start the context only within the user's click.
    context.resume().catch(() => {});
    await context.audioWorklet.addModule(new URL("worklet.mjs", import.meta.url));
  } catch {
    for (const track of stream.getTracks()) track.stop();
    context.close().catch(() => {});
    throw new MicrophoneError("This page is out of date: reload it.");
  }
  const every = Math.ceil(context.sampleRate / MAX_RATE);
  const node = new AudioWorkletNode(context, "hearth-microphone", {
    ...{ numberOfInputs: 1, numberOfOutputs: 0 },
    processorOptions: { every },
  });
  node.port.onmessage = ({ data }) => onAudio(data);
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  source.connect(analyser);
  source.connect(node);
  for (const track of stream.getTracks()) track.onended = onDisconnect;
  return new Microphone(stream, context, Math.round(context.sampleRate / every), analyser);
}

async function streamOf(devices) {
  if (!devices?.getUserMedia) {
    throw new MicrophoneError(globalThis.isSecureContext === false ? INSECURE : NONE);
  }
  try {
    return await devices.getUserMedia({ audio: CONSTRAINTS });
  } catch (error) {
    throw new MicrophoneError(REASONS[error.name] ?? "The microphone cannot be opened.");
  }
}

const NONE = "This browser has no microphone access. Use another browser, or transcribe a file.";
const INSECURE =
  "Browsers allow the microphone only on https:// and on localhost: open that address, " +
  "or transcribe a file.";

function contextOf(stream) {
  // Firefox supports only the microphone's own rate; the start message contains it.
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
