// The events of a streamed answer.

/** Joins the parts of a stream's text and cuts it into events. */
export class EventReader {
  #rest = "";

  /** Return the JSON of each event that this text completes, in order. */
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
