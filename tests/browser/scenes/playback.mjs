import { about, ended, enter, fresh, pause, sound, speak, write } from "../visit.mjs";

const FOUR_SENTENCES =
  "NAME has the kettle on, and NAME the window open. Somebody has left NAME a basket of apples. " +
  "It will rain on NAME in the afternoon, so NAME takes the bicycles inside. NAME paints the fence.";
const TRIES = 3;
const BUT_NOT = {
  mediaSource: ["MediaSource", "ManagedMediaSource", "SourceBuffer"],
  audioWorklet: ["AudioWorklet", "AudioWorkletNode"],
};

/**
 * Speak four sentences that are in no cache, to the end; again, where the server came too late.
 *
 * Each try is judged. On a machine that is busy just then the server is late, and no page
 * can repair that; it has to be in time once.
 */
export async function streaming(browser, job) {
  const tries = [];
  while (tries.length < TRIES && tries.at(-1)?.display.stalls !== "0") {
    const page = await enter(browser, job);
    const text = fresh(FOUR_SENTENCES);
    await write(page, text);
    tries.push({ text, ...(await speak(page)), complaints: page.complaints });
    await page.close();
  }
  return tries;
}

/** Speak a long text and press stop in the middle of it. */
export async function stop(browser, job) {
  const page = await enter(browser, job);
  await write(page, fresh(`${FOUR_SENTENCES} ${FOUR_SENTENCES} ${FOUR_SENTENCES}`));
  await page.evaluate(() => globalThis.__audio.clear());
  await page.click("#speak");
  await sound(page);
  await pause(500);
  await sound(page);
  const began = await about(page);
  await page.click("#stop");
  await ended(page);
  // Long enough for pieces on their way to be audible, if they are not dropped.
  await pause(1500);
  return { began, ...(await about(page)), complaints: page.complaints };
}

/** Speak in a browser without media sources, until everything has arrived. */
export async function withoutMediaSource(browser, job) {
  const page = await enter(browser, job, { without: BUT_NOT.mediaSource });
  const gone = await page.evaluate(() => typeof MediaSource === "undefined");
  await write(page, fresh(FOUR_SENTENCES));
  await page.evaluate(() => globalThis.__audio.clear());
  await page.click("#speak");
  await sound(page);
  await page.waitForFunction(() => globalThis.__audio.answered(), { polling: 50, timeout: 60_000 });
  return { gone, ...(await about(page)), complaints: page.complaints };
}

/** Speak in a browser without audio worklets, as every one is on a plain http:// address. */
export async function withoutAudioWorklet(browser, job) {
  const page = await enter(browser, job, { without: BUT_NOT.audioWorklet });
  const gone = await page.evaluate(() => new AudioContext().audioWorklet === undefined);
  await write(page, fresh("The bread is warm."));
  return { gone, ...(await speak(page)), complaints: page.complaints };
}
