// The link to a text and its voice: all of it behind the #, which no browser sends to a server.

export const FORMATS = ["mp3", "opus", "aac", "flac", "wav", "pcm"];

/** Return what a fragment says that can be used: text, voice, speed, format, each only if said. */
export function readLink(fragment) {
  const said = new URLSearchParams(fragment.replace(/^#/, ""));
  const found = {};
  if (said.get("text")) found.text = said.get("text");
  if (said.get("voice")) found.voice = said.get("voice").trim();
  const speed = Number(said.get("speed") ?? NaN);
  if (speed >= 0.25 && speed <= 4) found.speed = speed;
  if (FORMATS.includes(said.get("format"))) found.format = said.get("format");
  return found;
}

/** Return the fragment of this text, voice, speed and format; what is usual is left out. */
export function writeLink({ text, voice, speed, format }) {
  const said = new URLSearchParams();
  if (text) said.set("text", text);
  if (voice) said.set("voice", voice);
  if (speed !== 1) said.set("speed", String(speed));
  if (format !== "mp3") said.set("format", format);
  return `#${said}`;
}
