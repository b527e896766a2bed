import { join } from "node:path";
import { act, enter as enterChat, logIn, openPage, request, write } from "../chat.mjs";
import { visit } from "../visit.mjs";

const DECIDED_MS = 90_000;
const AUTHENTICATOR = {
  ...{ protocol: "ctap2", transport: "internal", hasResidentKey: true },
  ...{ hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
};

/** Log in with the house's password; return what the list of approvals shows. */
export async function login(browser, job) {
  const page = await visit(browser, job.page);
  await page.type("#password", job.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await page.waitForSelector("#people");
  return { address: page.url(), text: await shown(page), complaints: page.complaints };
}

/** Make a passkey with a code from the machine's terminal. */
export async function enrol(browser, job) {
  const page = await visit(browser, `${job.page}enrol`);
  const passkey = await plug(page, job);
  const { done: code } = await act(page, job, "code");
  await page.type("#code", code);
  await page.click("#enrol");
  const outcome = await said(page);
  await unplug(passkey, job);
  return { outcome, passkeys: job.passkeys.length, complaints: page.complaints };
}

/** Ask in the chat for a restart, follow it to its approval, read it and approve it by passkey. */
export const approve = (browser, job) => decide(browser, job, job.restart, DECIDED_MS);

/** Approve a change of the house, which the page shows as a diff, by passkey as well. */
export const change = (browser, job) => decide(browser, job, job.change, job.change_ms);

async function decide(browser, job, wish, within) {
  const asked = await ask(browser, job, wish);
  const page = await visit(browser, asked.approval);
  const passkey = await plug(page, job);
  const before = await proposal(page);
  await page.screenshot({ path: join(job.folder, `${asked.name}.png`), fullPage: true });
  await page.click("#approve");
  const state = await ended(page, within);
  await unplug(passkey, job);
  const after = await proposal(page);
  return { ...asked, before, state, after, complaints: page.complaints };
}

/** Ask in the chat for a change of a file: the approval shows it as a diff; refuse it. */
export async function refuse(browser, job) {
  const asked = await ask(browser, job, job.change);
  const page = await visit(browser, asked.approval);
  const before = await proposal(page);
  await page.screenshot({ path: join(job.folder, "diff.png"), fullPage: true });
  await page.click("#refuse");
  const state = await ended(page);
  const { done: services } = await act(page, job, "read the services");
  return { ...asked, before, state, services, complaints: page.complaints };
}

/** Press the page's own button as a program would: signed in, and without a passkey. */
export async function withoutPasskey(browser, job) {
  const { done: name } = await act(await visit(browser, job.page), job, "propose");
  const page = await visit(browser, `${job.page}${name}`);
  const line = await page.createCDPSession();
  await line.send("WebAuthn.enable");
  await page.click("#approve");
  // By itself nobody presents a passkey, so the request behind the button is sent as well.
  const forged = await page.evaluate(async (address) => {
    const headers = { "Content-Type": "application/json" };
    const bodies = [{}, { credential: {} }, { credential: { id: "x", response: {} } }];
    const found = [];
    for (const body of bodies) {
      const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
      found.push(answer.status);
    }
    return found;
  }, `/approvals/${name}/approve`);
  const state = await page.evaluate(async (address) => (await (await fetch(address)).json()).state,
    `/approvals/${name}/state`);
  return { name, forged, state };
}

/** Open a proposal whose 15 minutes are over. */
export async function late(browser, job) {
  const { done: name } = await act(await visit(browser, job.page), job, "let one expire");
  const page = await visit(browser, `${job.page}${name}`);
  const passkey = await plug(page, job);
  const found = await proposal(page);
  await unplug(passkey, job);
  return { ...found, button: (await page.$("#approve")) !== null };
}

/** Write to the team in the chat; return its steps, and the address of the approval. */
async function ask(browser, job, { model, text }) {
  const place = { ...job, page: job.chat };
  const page = job.signedIn ? await enterChat(browser, place) : await openPage(browser, place);
  if (!job.signedIn) await logIn(page, job.email, job.chatPassword);
  job.signedIn = true;
  await choose(page, model);
  await write(page, text);
  const { done: name } = await act(page, job, "wait for a proposal");
  // A person finds the way to it in the chat.
  const link = await page.waitForSelector(`a[href="${job.page}${name}"]`, { timeout: DECIDED_MS });
  const steps = await page.evaluate(() => document.body.innerText);
  await page.screenshot({ path: join(job.folder, `chat-${name}.png`) });
  return { name, steps, approval: await link.evaluate((one) => one.href) };
}

async function choose(page, id) {
  const { data } = await request(page, "GET", "/api/models");
  const { name } = data.find((one) => one.id === id);
  await page.click("#model-selector-model-button");
  // A long list has only those in it that are in view.
  await page.locator('[placeholder="Search a model"]').fill(name);
  await page.locator(`[role=option][aria-label="Select ${name} model"]`).click();
}

/** Give the page an authenticator with this visitor's passkeys. */
async function plug(page, job) {
  const line = await page.createCDPSession();
  await line.send("WebAuthn.enable");
  const { authenticatorId } = await line.send("WebAuthn.addVirtualAuthenticator", {
    options: AUTHENTICATOR,
  });
  for (const credential of job.passkeys ?? []) {
    await line.send("WebAuthn.addCredential", { authenticatorId, credential });
  }
  return { line, authenticatorId };
}

/** Keep the passkeys with their counters: an authenticator ends with its page. */
async function unplug({ line, authenticatorId }, job) {
  const { credentials } = await line.send("WebAuthn.getCredentials", { authenticatorId });
  job.passkeys = credentials;
}

async function said(page) {
  await page.waitForFunction(() => document.querySelector("#outcome").textContent.trim());
  return page.$eval("#outcome", (one) => one.textContent.trim());
}

/** Wait until a decided proposal has come to its end, and return which one. */
async function ended(page, within = DECIDED_MS) {
  await page.waitForFunction(
    () => !["pending", "approved", "running", undefined].includes(
      document.querySelector("#verdict")?.dataset.state,
    ),
    { polling: 200, timeout: within },
  );
  return page.$eval("#verdict", (one) => one.dataset.state);
}

async function proposal(page) {
  return page.evaluate(() => ({
    state: document.querySelector("#verdict").dataset.state,
    facts: document.querySelector("#verdict .facts").innerText,
    diff: document.querySelector("pre.diff")?.innerText ?? "",
    reads: document.querySelector("#reads")?.parentElement.innerText ?? "",
    text: document.querySelector("main").innerText,
  }));
}

const shown = (page) => page.$eval("main", (one) => one.innerText);
