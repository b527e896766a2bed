/** The looks themselves: each ends in time, and none throws for what it looks for. */
const ANSWER_MS = 8000;
const LISTEN_MS = 10_000;
/** Of what a microphone can give: louder than the noise of a quiet room. */
const LOUD = 0.02;

/** Say whether an address answers this page, by a connection that the browser believes. */
export async function answers(address) {
  const end = new AbortController();
  const late = setTimeout(() => end.abort(), ANSWER_MS);
  try {
    const answer = await fetch(address, { cache: "no-store", signal: end.signal });
    return answer.ok && (await answer.json()).house === "Hearth";
  } catch {
    return false;
  } finally {
    clearTimeout(late);
  }
}

/** Say whether what is sent over a WebSocket comes back. */
export function echoes(address) {
  return new Promise((done) => {
    const socket = new WebSocket(address);
    const sent = String(Math.random());
    const end = (good) => {
      clearTimeout(late);
      socket.close();
      done(good);
    };
    const late = setTimeout(end, ANSWER_MS, false);
    socket.addEventListener("open", () => socket.send(sent));
    socket.addEventListener("message", ({ data }) => end(data === sent));
    socket.addEventListener("error", () => end(false));
    socket.addEventListener("close", () => end(false));
  });
}

/** Say whether the microphone hears anything; throws what the browser says where there is none. */
export async function hears(show) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext();
  try {
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const until = performance.now() + LISTEN_MS;
    while (performance.now() < until) {
      analyser.getFloatTimeDomainData(samples);
      const loud = Math.hypot(...samples) / Math.sqrt(samples.length);
      show(Math.min(1, loud * 8));
      if (loud > LOUD) return true;
      await new Promise((next) => setTimeout(next, 50));
    }
    return false;
  } finally {
    for (const track of stream.getTracks()) track.stop();
    await context.close();
  }
}
