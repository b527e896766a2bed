// A transcript as a file: plain, or as subtitles.

const TYPES = { txt: "text/plain", srt: "application/x-subrip", vtt: "text/vtt" };

/** Return lines of text as the content of a file: "txt", "srt" or "vtt". */
export function contentOf(lines, format) {
  if (format === "txt") return `${lines.map(({ text }) => text).join("\n")}\n`;
  const cues = lines.map(format === "srt" ? srtCue : vttCue);
  return `${format === "vtt" ? "WEBVTT\n\n" : ""}${cues.join("\n")}`;
}

/** Return a file's name: what it was made of, without what file systems do not like. */
export function nameOf(origin, format) {
  const stem = origin.replace(/\.[a-z0-9]{1,5}$/i, "").replace(/[^\p{L}\p{N}_-]+/gu, "-");
  return `${stem.replace(/^-+|-+$/g, "").slice(0, 80) || "transcript"}.${format}`;
}

/** Return a moment of a talk for people, such as 1:02 or 1:00:02. */
export function momentOf(seconds) {
  const [hours, minutes, rest] = partsOf(1000 * Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Hand a file to the browser's downloads. */
export function save(content, name) {
  const link = document.createElement("a");
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function srtCue({ text, start_s, end_s }, index) {
  return `${index + 1}\n${time(start_s, ",")} --> ${time(end_s, ",")}\n${oneLine(text)}\n`;
}

function vttCue({ text, start_s, end_s }) {
  const safe = oneLine(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  return `${time(start_s, ".")} --> ${time(end_s, ".")}\n${safe}\n`;
}

// An empty line would end the cue.
function oneLine(text) {
  return text.trim().replace(/\s+/g, " ");
}

function time(seconds, point) {
  const [hours, minutes, rest, ms] = partsOf(Math.round(1000 * seconds));
  const padded = [hours, minutes, rest].map((number) => String(number).padStart(2, "0"));
  return `${padded.join(":")}${point}${String(ms).padStart(3, "0")}`;
}

function partsOf(ms) {
  const seconds = Math.floor(ms / 1000);
  return [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60, ms % 1000];
}
