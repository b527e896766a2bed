// The export of a transcript: plain text or subtitles.

const TYPES = { txt: "text/plain", srt: "application/x-subrip", vtt: "text/vtt" };

/** Return lines of text as the content of a file: "txt", "srt" or "vtt". */
export function contentOf(lines, format) {
  if (format === "txt") return `${lines.map(({ text }) => text).join("\n")}\n`;
  const cues = lines.map(format === "srt" ? srtCue : vttCue);
  return `${format === "vtt" ? "WEBVTT\n\n" : ""}${cues.join("\n")}`;
}

/** Return a file name from the name of the source, without special characters. */
export function fileName(source, format) {
  const stem = source.replace(/\.[a-z0-9]{1,5}$/i, "").replace(/[^\p{L}\p{N}_-]+/gu, "-");
  return `${stem.replace(/^-+|-+$/g, "").slice(0, 80) || "transcript"}.${format}`;
}

/** Return a time for people, such as 1:02 or 1:00:02. */
export function timeText(seconds) {
  const [hours, minutes, rest] = partsOf(1000 * Math.floor(seconds));
  const padded = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${padded(minutes)}:${padded(rest)}` : `${minutes}:${padded(rest)}`;
}

/** Save a file by a download of the browser. */
export function save(content, name) {
  const link = document.createElement("a");
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function srtCue({ text, start_s, end_s }, index) {
  return `${index + 1}\n${cueTime(start_s, ",")} --> ${cueTime(end_s, ",")}\n${oneLine(text)}\n`;
}

function vttCue({ text, start_s, end_s }) {
  const escaped = oneLine(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  return `${cueTime(start_s, ".")} --> ${cueTime(end_s, ".")}\n${escaped}\n`;
}

// An empty line would end the cue.
function oneLine(text) {
  return text.trim().replace(/\s+/g, " ");
}

function cueTime(seconds, separator) {
  const [hours, minutes, rest, ms] = partsOf(Math.round(1000 * seconds));
  const padded = [hours, minutes, rest].map((number) => String(number).padStart(2, "0"));
  return `${padded.join(":")}${separator}${String(ms).padStart(3, "0")}`;
}

function partsOf(ms) {
  const seconds = Math.floor(ms / 1000);
  return [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60, ms % 1000];
}
