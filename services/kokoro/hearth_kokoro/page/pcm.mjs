// Conversion of 16-bit PCM: base64, samples and wav files.

/** Return the bytes of a text in base64. */
export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Return the samples, -1 to 1, of 16 bit little-endian sound. */
export function samplesOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = (_, at) => view.getInt16(2 * at, true) / 32768;
  return Float32Array.from({ length: bytes.byteLength >> 1 }, read);
}

/** Return a whole wav file of 16 bit mono sound, given as parts of bytes. */
export function wavOf(parts, rate) {
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
  const head = new DataView(new ArrayBuffer(44));
  const word = (at, text) => [...text].forEach((c, i) => head.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF");
  head.setUint32(4, 36 + size, true);
  word(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true); // plain samples
  head.setUint16(22, 1, true); // one channel
  head.setUint32(24, rate, true);
  head.setUint32(28, 2 * rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  word(36, "data");
  head.setUint32(40, size, true);
  return new Blob([head, ...parts], { type: "audio/wav" });
}
