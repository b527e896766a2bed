// The meter: the stages of the last turn as bars on one time axis, and the last fifty turns.

export const STAGES = [
  ["silence", "Pause"],
  ["transcription", "Your words"],
  ["model", "First word"],
  ["voice", "First sound"],
];
const KEPT = 50;

/** Return the bars of a turn: name, left and width as shares of the axis, and milliseconds. */
export function barsOf({ stages }) {
  const ends = Object.values(stages).flat();
  const first = Math.min(0, ...ends);
  const length = Math.max(1, Math.max(...ends) - first);
  return STAGES.filter(([name]) => stages[name]).map(([name, title]) => {
    const [start, end] = stages[name];
    // What began before the turn was over costs no waiting.
    const early = name !== "silence" && stages.silence && start < stages.silence[1];
    return { title, left: (start - first) / length, width: (end - start) / length, ms: Math.round(end - start), early: Boolean(early) };
  });
}

/** Return a list of milliseconds as its median, NaN for none. */
export function median(values) {
  const ranked = [...values].sort((one, other) => one - other);
  return ranked.length ? ranked[Math.floor((ranked.length - 1) / 2)] : NaN;
}

/** Shows turns. */
export class LatencyView {
  #places;
  #turns = [];

  /** Take the elements `stages`, `total`, `turns`, `median` and `note`. */
  constructor(places) {
    this.#places = places;
  }

  /** Show another turn. */
  add(turn) {
    if (!turn.stages?.total) return;
    this.#turns = [...this.#turns, turn].slice(-KEPT);
    this.#last(turn);
    this.#all();
  }

  #last(turn) {
    const total = turn.stages.total[1] - turn.stages.total[0];
    this.#places.total.textContent = `${Math.round(total)} ms`;
    this.#places.note.textContent = turn.speculated
      ? "The answer was begun in your pause, before it was clear that you had finished."
      : "From the end of your sentence to the first sound of the answer.";
    this.#places.stages.replaceChildren(
      ...barsOf(turn).map(({ title, left, width, ms, early }) => {
        const bar = Object.assign(document.createElement("i"), { className: early ? "early" : "" });
        bar.style.left = `${100 * left}%`;
        bar.style.width = `${100 * width}%`;
        const lane = Object.assign(document.createElement("span"), { className: "lane" });
        lane.append(bar);
        return row([title, lane, `${ms} ms`]);
      }),
    );
  }

  #all() {
    const totals = this.#turns.map(({ stages }) => stages.total[1] - stages.total[0]);
    const longest = Math.max(...totals);
    this.#places.median.textContent = `median ${Math.round(median(totals))} ms`;
    this.#places.turns.replaceChildren(
      ...totals.map((total, index) => {
        const bar = document.createElement("li");
        bar.className = this.#turns[index].speculated ? "" : "plain";
        bar.style.height = `${(100 * total) / longest}%`;
        bar.title = `${Math.round(total)} ms`;
        return bar;
      }),
    );
  }
}

function row(parts) {
  const item = document.createElement("li");
  for (const part of parts) {
    if (typeof part === "string") {
      item.append(Object.assign(document.createElement("span"), { textContent: part }));
    } else item.append(part);
  }
  return item;
}
