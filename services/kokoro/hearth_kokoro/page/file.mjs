// A speech as a file.

import { bytesOf, wavOf } from "./events.mjs";
import { RATE } from "./stage.mjs";

// Firefox calls a file of audio/ogg .ogx, whatever name it is given.
const KINDS = { mp3: "audio/mpeg", aac: "audio/aac" };
const ANY_KIND = "application/octet-stream";

/** Return the file of a speech; `progress` hears how much of the text is in it, 0 to 1, or null. */
export async function fileOf(server, asked, format, signal, progress) {
  if (format === "flac") {
    progress(null);
    return server.whole({ ...asked, response_format: format }, signal);
  }
  const sent = { ...asked, response_format: format === "wav" ? "pcm" : format };
  const parts = [];
  let made = 0;
  for await (const { audio, text = "" } of server.events(sent, signal)) {
    parts.push(bytesOf(audio));
    made += text.length;
    progress(made / asked.input.length);
  }
  return format === "wav" ? wavOf(parts, RATE) : new Blob(parts, { type: KINDS[format] ?? ANY_KIND });
}

/** Return a file's name: the voice, without what file systems do not like. */
export function nameOf(voice, format) {
  return `${voice.replace(/[^a-z0-9_-]+/gi, "-").replace(/^-+|-+$/g, "") || "speech"}.${format}`;
}

/** Hand a file to the browser's downloads. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
