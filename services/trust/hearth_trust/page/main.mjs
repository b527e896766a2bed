/** Look whether this device finds the house by name, believes it, and may talk and listen there. */
import { answers, echoes, hears } from "./looking.mjs";

const main = document.querySelector("main");
const { site } = main.dataset;
const secure = location.protocol === "https:";
const button = (id) => document.getElementById(id);

/** Show what came of one check; its text says what to do where it is not good. */
function note(id, state, text) {
  const row = document.getElementById(id);
  row.dataset.state = state;
  row.querySelector("span").textContent = text;
}

/** Show what is true of the whole device. */
function judge(state, headline, advice = "") {
  main.dataset.state = state;
  document.getElementById("headline").textContent = headline;
  document.getElementById("advice").textContent = advice;
}

/** Under plain HTTP: find out what is missing; where nothing is, go on by HTTPS. */
async function approach() {
  judge("looking", "Looking at this device…");
  const named = location.hostname === site || (await answers(`http://${site}/check`));
  note("names", named ? "good" : "bad", named
    ? `this device finds ${site}`
    : `this device does not find ${site}: step 3`);
  const believed = await answers(`https://${site}/check`);
  if (believed) {
    note("trust", "good", "this device believes it");
    judge("looking", "This device trusts the house. Going on…");
    location.replace(`https://${site}/`);
    return;
  }
  note("trust", "bad", named
    ? "this device does not believe it: steps 1 and 2"
    : "cannot be tested before the name is found");
  note("secure", "waiting", "comes with the certificate");
  note("socket", "waiting", "comes with the certificate");
  note("microphone", "waiting", "comes with the certificate");
  judge("red", named ? "This device does not trust the house yet." : "This device does not ask the house for names yet.",
    named
      ? "Do steps 1 and 2 below; this page looks again when you come back."
      : "Do the three steps below; this page looks again when you come back.");
  button("again").hidden = false;
}

/** By HTTPS: look at what only a trusted page may do. */
async function arrive() {
  judge("looking", "Looking at this device…");
  note("names", "good", `this device finds ${site}`);
  note("trust", "good", "this device believes it");
  const safe = globalThis.isSecureContext && Boolean(globalThis.crypto?.subtle);
  note("secure", safe ? "good" : "bad", safe
    ? "the browser gives this page all it has"
    : "the browser does not count this page as secure");
  const live = await echoes(`wss://${site}/echo`);
  note("socket", live ? "good" : "bad", live
    ? "what was sent came back"
    : "nothing came back: a proxy or a filter between this device and the house may be in the way");
  if (!safe || !live) {
    judge("red", "Something is in the way.", "The list says what.");
    button("again").hidden = false;
    return;
  }
  note("microphone", "waiting", "not tested yet");
  judge("nearly", "This device trusts the house.", "One thing is left, if you want to talk to it.");
  button("listen").hidden = false;
}

/** Listen until something is heard, and show how loud it is. */
async function listen() {
  const level = document.getElementById("level");
  button("listen").hidden = true;
  note("microphone", "waiting", "say something");
  level.hidden = false;
  try {
    const heard = await hears((loud) => { level.value = loud; });
    note("microphone", heard ? "good" : "bad", heard
      ? "it hears you"
      : "it is open, but silent: is it the right one, and not muted?");
  } catch (error) {
    note("microphone", "bad", error.name === "NotAllowedError"
      ? "the browser was not allowed to listen: see its settings for this site"
      : "this device has none that the browser can use");
  }
  level.hidden = true;
  if (document.getElementById("microphone").dataset.state === "good") {
    judge("green", "All is well.", "This device trusts the house and can talk to it.");
    return;
  }
  judge("nearly", "This device trusts the house.", "Only the microphone does not work.");
  button("listen").hidden = false;
}

document.getElementById("checks").hidden = false;
let running = null;
/** Look, but never twice at once. */
function look() {
  running ??= (secure ? arrive() : approach()).finally(() => { running = null; });
}
button("again").addEventListener("click", look);
button("listen").addEventListener("click", listen);
// Whoever comes back from the device's settings has done something there.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && main.dataset.state === "red") look();
});
// An iPad calls itself a Mac; a Mac has no touch screen.
if (navigator.maxTouchPoints > 1 && document.querySelector("#macos")?.open) {
  document.querySelector("#macos").open = false;
  document.querySelector("#ios").open = true;
}
look();
