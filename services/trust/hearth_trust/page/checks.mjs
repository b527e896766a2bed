/** The checks themselves: each one ends in time, and reports a failure instead of throwing. */
const TIMEOUT_MS = 8000;
const LISTEN_MS = 10_000;
/** RMS level on the scale of the samples, 0 to 1: above the noise of a quiet room. */
const LOUD = 0.02;

/** Return whether the house answers at an address, over a connection that the browser trusts. */
export async function reachable(address) {
  const aborter = new AbortController();
  const timer = setTimeout(() => aborter.abort(), TIMEOUT_MS);
  try {
    const response = await fetch(address, { cache: "no-store", signal: aborter.signal });
    return response.ok && (await response.json()).house === "Hearth";
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Return whether a WebSocket sends a message back. */
export function echoes(address) {
  return new Promise((resolve) => {
    const socket = new WebSocket(address);
    const sent = String(Math.random());
    const finish = (passed) => {
      clearTimeout(timer);
      socket.close();
      resolve(passed);
    };
    const timer = setTimeout(finish, TIMEOUT_MS, false);
    socket.addEventListener("open", () => socket.send(sent));
    socket.addEventListener("message", ({ data }) => finish(data === sent));
    socket.addEventListener("error", () => finish(false));
    socket.addEventListener("close", () => finish(false));
  });
}

/** Return whether the microphone picks up a sound; throws the browser's error if it cannot open. */
export async function detectSound(showLevel) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext();
  try {
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const end = performance.now() + LISTEN_MS;
    while (performance.now() < end) {
      analyser.getFloatTimeDomainData(samples);
      const level = Math.hypot(...samples) / Math.sqrt(samples.length);
      showLevel(Math.min(1, level * 8));
      if (level > LOUD) return true;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return false;
  } finally {
    for (const track of stream.getTracks()) track.stop();
    await context.close();
  }
}
