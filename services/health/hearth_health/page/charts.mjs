// Charts of the figures: median and 95th percentile over the last hour, day or month.

const TITLES = {
  ttfa: ["Time to first audio", "ms"],
  ttft: ["Time to first token", "ms"],
  stt: ["End of speech to text", "ms"],
  rate: ["Tokens per second", "/s"],
};
const REFRESH_MS = { hour: 30_000, day: 120_000, month: 900_000 };
const HEIGHT = 180;
const TIME = { hour: "2-digit", minute: "2-digit" };
const DAY = { day: "numeric", month: "short" };
let drawn = [];
let timer = null;

/** Show the charts, and keep them as new as their span needs. */
export async function start(place, spans, problem) {
  await library(document.querySelector("main").dataset.files);
  spans.hidden = false;
  const load = async () => {
    clearTimeout(timer);
    const span = spans.querySelector(":checked").value;
    if (!document.hidden) await refresh(span, place, problem);
    timer = setTimeout(load, REFRESH_MS[span]);
  };
  spans.addEventListener("change", load);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", load);
  new ResizeObserver(() => {
    for (const one of drawn) one.setSize({ width: widthOf(one.root.parentElement), height: HEIGHT });
  }).observe(place);
  await load();
}

function library(files) {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = `${files}/uplot.js`;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
}

async function refresh(span, place, problem) {
  const answer = await fetch(`/figures.json?span=${span}`).catch(() => null);
  const found = await answer?.json().catch(() => null);
  const why = found?.series ? "" : found?.problem ?? "the house did not answer";
  problem.hidden = !why;
  problem.textContent = why && `No charts: ${why}.`;
  place.hidden = Boolean(why);
  if (!why) draw(found, place);
}

function draw({ span, times, series }, place) {
  for (const one of drawn) one.destroy();
  place.replaceChildren();
  drawn = Object.entries(TITLES)
    .filter(([name]) => series[name])
    .map(([name, [title, unit]]) => {
      const figure = document.createElement("figure");
      figure.className = "chart";
      const caption = document.createElement("figcaption");
      const used = series[name].median.some((value) => value !== null);
      caption.textContent = `${title}, ${unit}${used ? "" : `: not used in the last ${span}`}`;
      figure.append(caption);
      place.append(figure);
      return used ? chart(figure, times, series[name]) : null;
    })
    .filter(Boolean);
}

const widthOf = (element) => Math.max(200, element.clientWidth);

function chart(figure, times, { median, p95 }) {
  const days = times.at(-1) - times[0] > 2 * 86_400;
  const written = (at, style) => new Date(at * 1000).toLocaleString([], style);
  const mark = (at) => written(at, days ? DAY : TIME);
  const moment = (at) => written(at, days ? { ...DAY, ...TIME } : TIME);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
  const value = (_, raw) => (raw === null ? "–" : raw >= 100 ? raw.toFixed(0) : raw.toPrecision(3));
  const last = times.length - 1;
  const newest = (plot) => plot.cursor.idx ?? plot.setLegend({ idx: last }, false);
  return new globalThis.uPlot(
    {
      width: widthOf(figure),
      height: HEIGHT,
      scales: { y: { range: (_, least, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: [{ ...axis, space: 70, size: 32, values: (_, marks) => marks.map(mark) }, { ...axis, size: 52 }],
      // Without a pointer, the legend shows the newest values.
      hooks: { ready: [newest], setCursor: [newest] },
      cursor: { y: false },
      series: [
        { label: "", value: (_, at) => (at ? moment(at) : "") },
        { label: "median", stroke: color("--accent"), width: 2, value, spanGaps: false },
        { label: "p95", stroke: color("--soft"), width: 1.5, dash: [5, 4], value },
      ],
    },
    [times, median, p95],
    figure,
  );
}
