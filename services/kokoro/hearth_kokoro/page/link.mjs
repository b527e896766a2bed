// The link to a text and its voice. All of it is in the fragment, which browsers do not send.

export const FORMATS = ["mp3", "opus", "aac", "flac", "wav", "pcm"];

/** Return text, voice, speed and format of a fragment, each only if present and valid. */
export function readLink(fragment) {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const found = {};
  if (params.get("text")) found.text = params.get("text");
  if (params.get("voice")) found.voice = params.get("voice").trim();
  const speed = Number(params.get("speed") ?? NaN);
  if (speed >= 0.25 && speed <= 4) found.speed = speed;
  if (FORMATS.includes(params.get("format"))) found.format = params.get("format");
  return found;
}

/** Return the fragment of this text, voice, speed and format, without default values. */
export function writeLink({ text, voice, speed, format }) {
  const params = new URLSearchParams();
  if (text) params.set("text", text);
  if (voice) params.set("voice", voice);
  if (speed !== 1) params.set("speed", String(speed));
  if (format !== "mp3") params.set("format", format);
  return `#${params}`;
}
