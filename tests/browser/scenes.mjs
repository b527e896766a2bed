import * as door from "./scenes/door.mjs";
import * as listened from "./scenes/listening.mjs";
import * as looks from "./scenes/looks.mjs";
import * as playing from "./scenes/playing.mjs";
import * as using from "./scenes/using.mjs";

/**
 * Return the scenes of the page that speaks, in the order in which they are played; in the dark only
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

/** Return the scenes of the page that listens. */
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

const inTheDark = (login) => ({
  "log in in the dark": login,
  "accessibility in the dark": looks.accessibility,
  "dark pictures": looks.darkPictures,
});
