// The events of a streamed answer.

/** Puts the events of a stream together from whatever parts its text arrives in. */
export class EventReader {
  #rest = "";

  /** Return what became whole with this text: the JSON of each event, in order. */
  feed(text) {
    const blocks = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = blocks.pop();
    return blocks.map(dataOf).filter((data) => data !== "").map((data) => JSON.parse(data));
  }
}

function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).trim()).join("\n");
}
