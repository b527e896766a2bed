// A passkey is made with a one-time code.
import { make, reason, send } from "./webauthn.mjs";

const [code, button, outcome] = ["code", "enrol", "outcome"].map((id) => document.getElementById(id));

async function enrol() {
  button.disabled = true;
  outcome.textContent = "";
  try {
    const { options } = await send("/approvals/enrol/options", { code: code.value.trim() });
    const credential = await make(options);
    const done = await send("/approvals/enrol", { code: code.value.trim(), credential });
    outcome.textContent = `Done: ${done.text}.`;
    code.value = "";
  } catch (error) {
    outcome.textContent = reason(error);
  }
  button.disabled = false;
}

button.addEventListener("click", enrol);
code.addEventListener("keydown", (event) => { if (event.key === "Enter") enrol(); });
button.disabled = false;
