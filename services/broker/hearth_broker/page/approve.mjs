// One proposal: the minutes that are left, the two buttons, and what becomes of it.
import { reason, send, sign } from "./webauthn.mjs";

const byId = (id) => document.getElementById(id);
const verdict = byId("verdict");
const address = `/approvals/${verdict.dataset.id}`;
const ends = performance.now() + Number(verdict.dataset.left) * 1000;
const POLL_MS = 2000;
const buttons = [byId("approve"), byId("refuse")].filter(Boolean);

function say(text) { byId("outcome").textContent = text; }

function busy(is) { for (const one of buttons) one.disabled = is; }

async function act(work) {
  busy(true);
  say("");
  try {
    await work();
    location.reload();
  } catch (error) {
    say(reason(error));
    busy(false);
  }
}

byId("approve")?.addEventListener("click", () => act(async () => {
  const credential = await sign(JSON.parse(verdict.dataset.options));
  await send(`${address}/approve`, { credential });
}));
byId("refuse")?.addEventListener("click", () => act(() => send(`${address}/refuse`, {})));
busy(false);

function count() {
  const left = Math.max(0, Math.floor((ends - performance.now()) / 1000));
  const shown = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  byId("left").textContent = `: ${shown} minutes left`;
  if (left === 0) location.reload();
}

/** Load the page again once the state has changed: the server writes it. */
async function look() {
  const answer = await fetch(`${address}/state`, { cache: "no-store" }).catch(() => null);
  const found = answer?.ok ? await answer.json() : null;
  if (found && found.state !== verdict.dataset.state) location.reload();
}

if (verdict.dataset.state === "pending") setInterval(count, 1000);
if (["pending", "approved", "running"].includes(verdict.dataset.state)) setInterval(look, POLL_MS);
