// Speech as a downloaded file.

// Firefox names a file of type audio/ogg .ogx, whatever its name is.
const KINDS = { mp3: "audio/mpeg", aac: "audio/aac" };
const ANY_KIND = "application/octet-stream";

/** Return speech as a file; a whole file repeats the segments that were played last. */
export async function fetchSpeech(server, request, format, signal) {
  const sound = await server.whole({ ...request, response_format: format }, signal);
  return new Blob([sound], { type: KINDS[format] ?? ANY_KIND });
}

/** Return a file's name: the voice, without characters that file systems reject. */
export function fileName(voice, format) {
  return `${voice.replace(/[^a-z0-9_-]+/gi, "-").replace(/^-+|-+$/g, "") || "speech"}.${format}`;
}

/** Pass a file to the browser's downloads. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
