// A speech as a file.

// Firefox calls a file of audio/ogg .ogx, whatever name it is given.
const KINDS = { mp3: "audio/mpeg", aac: "audio/aac" };
const ANY_KIND = "application/octet-stream";

/** Return a speech as a file; asked for whole, the server makes what was heard last. */
export async function fileOf(server, asked, format, signal) {
  const sound = await server.whole({ ...asked, response_format: format }, signal);
  return new Blob([sound], { type: KINDS[format] ?? ANY_KIND });
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
