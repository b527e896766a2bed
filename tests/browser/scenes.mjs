import * as broken from "./scenes/broken.mjs";
import * as chat from "./scenes/chatting.mjs";
import * as door from "./scenes/door.mjs";
import * as listened from "./scenes/listening.mjs";
import * as looks from "./scenes/looks.mjs";
import * as playing from "./scenes/playing.mjs";
import * as trust from "./scenes/trusting.mjs";
import * as using from "./scenes/using.mjs";

/**
 * Return the scenes of the TTS page, in the order in which they are played; in dark mode only
 * what looks different.
 */
export function speaking(dark) {
  if (dark) return inTheDark(door.login);
  return {
    stranger: door.stranger,
    login: door.login,
    streaming: playing.streaming,
    stop: playing.stop,
    "without MediaSource": playing.withoutMediaSource,
    "without AudioWorklet": playing.withoutAudioWorklet,
    sample: using.sample,
    blend: using.blend,
    keyboard: using.keyboard,
    download: using.download,
    permalink: using.permalink,
    accessibility: looks.accessibility,
    phone: looks.phone,
    "light pictures": looks.lightPictures,
    "login ended": door.loginEnded,
  };
}

/** Return the scenes of the STT page. */
export function listening(dark) {
  if (dark) return inTheDark(listened.login);
  return {
    stranger: door.stranger,
    login: listened.login,
    talk: listened.talk,
    "line now": listened.lineNow,
    upload: listened.upload,
    picture: listened.picture,
    "without a microphone": listened.withoutMicrophone,
    keyboard: listened.keyboard,
    accessibility: looks.accessibility,
    phone: looks.phone,
    "light pictures": looks.lightPictures,
    "login ended": listened.loginEnded,
  };
}

/** Return the scenes of the chat. */
export function chatting(dark, { browser }) {
  if (dark) return { "log in in the dark": chat.login, "dark pictures": chat.pictures };
  const first = { stranger: chat.stranger, login: chat.login, streaming: chat.streaming };
  // The reason for a second browser: the page does not depend on the first one.
  if (browser === "firefox") return { ...first, speaker: chat.speaker };
  return {
    ...first,
    again: chat.again,
    speaker: chat.speaker,
    dictation: chat.dictation,
    picture: chat.picture,
    document: chat.letter,
    "second account": chat.second,
    "light pictures": chat.pictures,
  };
}

/** Return the scenes in which programs of the house end while the chat is open. */
export function breaking(dark) {
  if (dark) return {};
  return {
    login: chat.login,
    call: chat.call,
    reload: broken.reload,
    "without LiteLLM": broken.withoutLitellm,
    "without Ollama": broken.withoutOllama,
    "without Kokoro": broken.withoutKokoro,
    "without its server": broken.withoutServer,
  };
}

/** Return the scene of a person who goes away and comes back. */
export function waiting(dark) {
  return dark ? {} : { login: chat.login, idle: broken.idle };
}

/** Return the scenes of the trust page, on a device that trusts the house. */
export function trusting(dark) {
  if (dark) return {};
  return {
    believed: trust.believed,
    accessibility: looks.accessibility,
    phone: looks.phone,
    doors: trust.doors,
  };
}

/** Return the scenes of the trust page, on a device without the house's root. */
export function mistrusting(dark) {
  if (dark) {
    return {
      "accessibility in the dark": looks.accessibility,
      "dark pictures": looks.darkPictures,
    };
  }
  return {
    stranger: trust.stranger,
    "without scripts": trust.withoutScripts,
    accessibility: looks.accessibility,
    phone: looks.phone,
  };
}

/** Return the scene of a device that uses another DNS server. */
export function nameless(dark) {
  return dark ? {} : { nameless: trust.nameless };
}

const inTheDark = (login) => ({
  "log in in the dark": login,
  "accessibility in the dark": looks.accessibility,
  "dark pictures": looks.darkPictures,
});
