/** Test whether this device finds the house, trusts it, and may use everything on its pages. */
import { detectSound, echoes, reachable } from "./checks.mjs";

const main = document.querySelector("main");
const { site } = main.dataset;
const secure = location.protocol === "https:";
const byId = (id) => document.getElementById(id);

/** Show the result of one check; the text says what to do if it failed. */
function showCheck(id, state, text) {
  const row = byId(id);
  row.dataset.state = state;
  row.querySelector("span").textContent = text;
}

/** Show the result for the device as a whole. */
function showResult(state, headline, advice = "") {
  main.dataset.state = state;
  byId("headline").textContent = headline;
  byId("advice").textContent = advice;
}

/** Over plain HTTP: find out what is missing; if nothing is, continue over HTTPS. */
async function checkOverHttp() {
  showResult("checking", "Testing this device…");
  const named = location.hostname === site || (await reachable(`http://${site}/check`));
  showCheck("names", named ? "good" : "bad", named
    ? `this device can find ${site}`
    : `this device cannot find ${site}: see step 3`);
  const trusted = await reachable(`https://${site}/check`);
  if (trusted) {
    showCheck("trust", "good", "this device trusts it");
    showResult("checking", "This device trusts the house. Continuing…");
    location.replace(`https://${site}/`);
    return;
  }
  showCheck("trust", "bad", named
    ? "this device does not trust it yet: see steps 1 and 2"
    : "cannot be tested until this device can find the name");
  showCheck("secure", "waiting", "needs the certificate first");
  showCheck("socket", "waiting", "needs the certificate first");
  showCheck("microphone", "waiting", "needs the certificate first");
  showResult("red", named
      ? "This device does not trust the house yet."
      : "This device cannot find the house by name yet.",
    named
      ? "Follow steps 1 and 2 below. This page tests again when you come back."
      : "Follow the three steps below. This page tests again when you come back.");
  byId("again").hidden = false;
}

/** Over HTTPS: test the features that browsers give to trusted pages only. */
async function checkOverHttps() {
  showResult("checking", "Testing this device…");
  showCheck("names", "good", `this device can find ${site}`);
  showCheck("trust", "good", "this device trusts it");
  const safe = globalThis.isSecureContext && Boolean(globalThis.crypto?.subtle);
  showCheck("secure", safe ? "good" : "bad", safe
    ? "the browser allows everything that this page needs"
    : "the browser does not treat this page as secure");
  const live = await echoes(`wss://${site}/echo`);
  showCheck("socket", live ? "good" : "bad", live
    ? "the test message came back"
    : "no reply: a proxy or filter between this device and the house may be blocking it");
  if (!safe || !live) {
    showResult("red", "Something is blocking this device.", "The list below shows what.");
    byId("again").hidden = false;
    return;
  }
  showCheck("microphone", "waiting", "not tested yet");
  showResult("nearly", "This device trusts the house.", "To talk to it, test the microphone too.");
  byId("listen").hidden = false;
}

/** Record until the microphone picks something up, and show the level. */
async function checkMicrophone() {
  const level = byId("level");
  byId("listen").hidden = true;
  showCheck("microphone", "waiting", "say something");
  level.hidden = false;
  try {
    const works = await detectSound((value) => { level.value = value; });
    showCheck("microphone", works ? "good" : "bad", works
      ? "it works"
      : "it is on but silent: is it the right one, and is it muted?");
  } catch (error) {
    showCheck("microphone", "bad", error.name === "NotAllowedError"
      ? "this page may not use it: allow it in the browser's settings for this site"
      : "the browser finds no microphone on this device");
  }
  level.hidden = true;
  if (byId("microphone").dataset.state === "good") {
    showResult("green", "Everything works.", "This device trusts the house and can talk to it.");
    return;
  }
  showResult("nearly", "This device trusts the house.", "Only the microphone does not work.");
  byId("listen").hidden = false;
}

byId("checks").hidden = false;
let running = null;
/** Run all checks, unless they are running already. */
function runChecks() {
  running ??= (secure ? checkOverHttps() : checkOverHttp()).finally(() => { running = null; });
}
byId("again").addEventListener("click", runChecks);
byId("listen").addEventListener("click", checkMicrophone);
// People who come back from the device's settings have usually changed something there.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && main.dataset.state === "red") runChecks();
});
// An iPad calls itself a Mac; a Mac has no touch screen.
if (navigator.maxTouchPoints > 1 && document.querySelector("#macos")?.open) {
  document.querySelector("#macos").open = false;
  document.querySelector("#ios").open = true;
}
runChecks();
