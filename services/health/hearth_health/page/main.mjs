// The house's page, kept as the house is now.
import { morph } from "./morph.mjs";
import { relative } from "./words.mjs";

// The server says something every ten seconds.
const SILENCE_MS = 25_000;
// A connection that comes back at once was not lost: the server ends each one now and then.
const LOST_MS = 6_000;
const SKEW_MS = 120_000;
const AGAIN_MS = 5_000;
const byId = (id) => document.getElementById(id);
const sections = new Map(
  [...document.querySelectorAll("[data-section]")].map((one) => [one.dataset.section, one]),
);
const live = byId("live");
const { title } = document;
let stream = null;
let silence = null;
let losing = null;
// Times are the house's, whatever this device's clock shows.
const skew = Number(document.querySelector("main").dataset.now) * 1000 - Date.now();

function connect() {
  stream?.close();
  stream = new EventSource("/events");
  stream.addEventListener("sections", ({ data }) => {
    show(JSON.parse(data));
    alive();
  });
  stream.addEventListener("beat", alive);
  stream.addEventListener("error", lost);
  expect();
}

function expect() {
  clearTimeout(silence);
  silence = setTimeout(() => { stream.close(); lost(); }, SILENCE_MS);
}

function alive() {
  clearTimeout(losing);
  losing = null;
  const differs = Math.abs(skew) > SKEW_MS;
  say("live", differs ? "Live; this device's clock and the house's differ" : "Live");
  expect();
}

/** Show that this page is old; connect again, or say that the login has ended. */
async function lost() {
  const time = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  losing ??= setTimeout(() => say("lost", `Not connected since ${time}; trying again`), LOST_MS);
  // The browser itself tries again after a lost connection, but not after an answer with an error.
  if (stream.readyState !== EventSource.CLOSED) return;
  clearTimeout(silence);
  const answer = await fetch("/health", { cache: "no-store" }).catch(() => null);
  if (answer?.status === 401) {
    clearTimeout(losing);
    say("lost", "You are signed out. ");
    live.append(Object.assign(document.createElement("a"), { href: "/", textContent: "Sign in" }));
    return;
  }
  setTimeout(connect, AGAIN_MS);
}

function say(state, text) {
  if (live.dataset.state === state && state === "live") return;
  live.dataset.state = state;
  live.textContent = text;
}

/** Show new sections, and tell a screen reader when the house's state is another one. */
function show(found) {
  const before = byId("headline")?.textContent;
  for (const [name, html] of Object.entries(found)) {
    const section = sections.get(name);
    if (section) morph(section, html);
  }
  tellTimes();
  const after = byId("headline")?.textContent;
  const state = byId("verdict")?.dataset.state;
  document.title = state === "up" ? title : `${after} · ${title}`;
  if (before !== after) byId("announce").textContent = after;
}

/** Replace the server's times with how long ago they are, in the browser's own time zone. */
function tellTimes() {
  const now = Date.now() + skew;
  for (const one of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(one.dateTime);
    const text = relative(moment.getTime(), now);
    if (text && one.textContent !== text) one.textContent = text;
    one.title = moment.toLocaleString();
  }
}

/** Press a button without leaving the page. */
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  const button = form.querySelector("button");
  const place = form.closest("li")?.querySelector(".outcome");
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  if (place) place.textContent = "Working…";
  const text = await press(form);
  button.removeAttribute("aria-busy");
  if (place) place.textContent = text;
  // Its finding may be gone by now.
  if (!place?.isConnected) byId("announce").textContent = text;
});

async function press(form) {
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
    });
    if (answer.status === 401) return "You are signed out: load the page again.";
    return (await answer.json()).text;
  } catch {
    return "The house did not answer. Look here again in a minute before you repeat this.";
  }
}

setInterval(tellTimes, 30_000);
tellTimes();
connect();
// A device that wakes up has missed everything.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live.dataset.state !== "live") connect();
});

// Charts are below the first screen, and their library is larger than the page.
const charts = byId("charts");
new IntersectionObserver((seen, observer) => {
  if (!seen.some((one) => one.isIntersecting)) return;
  observer.disconnect();
  import("./charts.mjs").then(({ start }) => start(charts, byId("spans"), byId("chart-problem")));
}, { rootMargin: "400px" }).observe(byId("figures-title"));
