import { join } from "node:path";
import { ANSWER_MS, answered, ask, deed, enter, lastAnswer, streams, told, write } from "../talk.mjs";
import { pause, sound } from "../visit.mjs";

const TELL = "Tell me a long story.";
const TRIES = 8;
// Letters that take longer to be spoken than it takes to end a program.
const LONG = 100;
const SPEAKER = "[id^=speak-button-]";
const FIELD = "#chat-input";
const NOTICE = "#hearth-connection:not([hidden])";

/** Leave the model as it was found, whatever came in between. */
const slowly = (scene) =>
  async function (browser, job) {
    try {
      return await scene(browser, job);
    } finally {
      const page = (await browser.pages()).at(-1);
      await deed(page, job, "let the model run");
    }
  };

/**
 * Write, and come to the middle of the answer: some of it is there, and more will not come yet.
 *
 * What a made-up model says may end after three words; then it is asked again.
 */
async function middle(page, job) {
  // Loading a model is work, too, and it has to be there before it is slowed down.
  await ask(page, "Good morning.");
  for (let tries = 0; tries < TRIES; tries += 1) {
    await deed(page, job, "slow the model");
    const turn = await write(page, TELL);
    await streams(page, turn);
    await deed(page, job, "hold the model");
    // What it had said by then is still on its way.
    await pause(700);
    if (!(await lastAnswer(page)).done) return { ...turn, words: (await told(page)).last };
    await deed(page, job, "let the model run");
  }
  throw new Error(`${TRIES} answers were shorter than it takes to look at them`);
}

/** While an answer is coming have the front door told something new; then write again. */
export const reload = slowly(async (browser, job) => {
  const page = await enter(browser, job);
  const turn = await middle(page, job);
  const cut = await deed(page, job, "reload the front door");
  const running = await answered(page, turn);
  const after = await ask(page, "And then?");
  const kept = await stored(page);
  return { before: turn.words, cut, running, after, kept };
});

/** Return the chat's words as the server has them, in their order. */
async function stored(page) {
  await page.reload();
  await page.waitForSelector(SPEAKER);
  const { messages } = await told(page);
  return messages;
}

/** Have a program of the house end while its answer is coming, and go on with the chat. */
const ended = (program) =>
  slowly(async (browser, job) => {
    const page = await enter(browser, job);
    const turn = await middle(page, job);
    const cut = await deed(page, job, `end ${program}`);
    const broken = await answered(page, turn);
    await page.screenshot({ path: join(job.folder, `${job.browser}-without-${program}.png`) });
    await deed(page, job, "let the model run");
    await deed(page, job, `wait for ${program}`);
    const next = await ask(page, "Go on.");
    return { before: turn.words, cut, broken, next, kept: await stored(page) };
  });

export const withoutLitellm = ended("litellm");
export const withoutOllama = ended("ollama");

/** Have Kokoro end while it makes what shall be read aloud; then have it read again. */
export async function withoutKokoro(browser, job) {
  let page, turn;
  for (let tries = 0; tries < TRIES && !(turn?.last.length > LONG); tries += 1) {
    page = await enter(browser, job);
    turn = await ask(page, TELL);
  }
  await page.click(SPEAKER);
  const cut = await deed(page, job, "end kokoro");
  await page.waitForSelector("[data-sonner-toast][data-type=error]");
  const broken = await told(page);
  await deed(page, job, "wait for kokoro");
  await page.evaluate(() => globalThis.__ear.clear());
  await page.click(SPEAKER);
  await sound(page);
  const next = await ask(page, "Go on.");
  return { turn, cut, broken, next };
}

/** Have the chat's own server end while one reads and writes; it comes back by itself. */
export async function withoutServer(browser, job) {
  const page = await enter(browser, job);
  const turn = await ask(page, "Good morning.");
  const cut = await deed(page, job, "stop open_webui");
  await page.waitForSelector(NOTICE);
  await page.screenshot({ path: join(job.folder, `${job.browser}-disconnected.png`) });
  await page.click(FIELD);
  await page.keyboard.type("Are you there?");
  await page.keyboard.press("Enter");
  // Upstream's own word of it goes after 4 s.
  await pause(5000);
  const away = await told(page);
  const field = await page.$eval(FIELD, (one) => one.innerText.trim());
  await deed(page, job, "start open_webui");
  await page.waitForSelector(NOTICE, { hidden: true, timeout: ANSWER_MS });
  const held = await page.$eval(FIELD, (one) => one.innerText.trim());
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[id^=speak-button-]").length > 1, {
    ...{ polling: 50, timeout: ANSWER_MS },
  });
  return { turn, cut, away, field, held, next: await told(page) };
}

/** Leave the page open for as long as a cup of tea takes, then write. */
export async function idle(browser, job) {
  const page = await enter(browser, job);
  const before = await ask(page, "I will be back.");
  await pause(job.idle_ms);
  const after = await ask(page, "Here I am.");
  return { before, after };
}
