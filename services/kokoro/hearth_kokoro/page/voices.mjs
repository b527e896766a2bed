// The voices: their languages, blends of two, and example sentences.

const LANGUAGES = {
  "en-us": "American English",
  "en-gb": "British English",
  es: "Spanish",
  "fr-fr": "French",
  hi: "Hindi",
  it: "Italian",
  "pt-br": "Brazilian Portuguese",
  zh: "Mandarin",
  ja: "Japanese",
};

/** An example text for each language. */
export const EXAMPLES = {
  "en-us":
    "Good evening. The fire is lit, the kettle is on, and the house is quiet. What shall I read?",
  "en-gb":
    "Good evening. The fire is lit, the kettle is on, and the rain can do as it likes. Shall I read?",
  es: "Buenas noches. El fuego está encendido y la casa está en silencio. ¿Qué le leo?",
  "fr-fr": "Bonsoir. Le feu est allumé et la maison est calme. Que voulez-vous que je lise ?",
  hi: "नमस्ते। आग जल रही है, चाय तैयार है, और घर में शांति है। मैं क्या पढ़ूँ?",
  it: "Buonasera. Il fuoco è acceso e la casa è tranquilla. Che cosa vi leggo?",
  "pt-br": "Boa noite. O fogo está aceso e a casa está em silêncio. O que quer que eu leia?",
  zh: "晚上好。炉火已经点燃，屋子里很安静。想听我读点什么？",
  ja: "こんばんは。暖炉に火がともり、家は静かです。何を読みましょうか。",
};

/**
 * Return the voices by language: `{label, refused, voices: [{id, label}]}`. `unsupported` maps
 * unsupported languages to their reasons; these come last.
 */
export function groupsOf(voices, unsupported) {
  const known = Object.keys(LANGUAGES);
  const place = (language) => (unsupported[language] ? 100 : 0) + known.indexOf(language);
  const languages = [...new Set(voices.map((voice) => voice.language))];
  languages.sort((one, other) => place(one) - place(other));
  return languages.map((language) => ({
    label: groupLabel(language, unsupported[language]),
    refused: language in unsupported,
    voices: voices
      .filter((voice) => voice.language === language)
      .map(({ id }) => ({ id, label: labelOf(id) })),
  }));
}

function groupLabel(language, reason) {
  const name = LANGUAGES[language] ?? language;
  // The text in brackets is for the server's administrator.
  return reason ? `${name}: ${reason.split(" (")[0]}` : name;
}

function labelOf(id) {
  const name = id.slice(3);
  const kind = { f: "female", m: "male" }[id[1]];
  if (!name || !kind || id[2] !== "_") return id;
  return `${name[0].toUpperCase()}${name.slice(1)} (${kind})`;
}

/** Return the server's name of a voice, or of a blend; `share` of the second is in percent. */
export function blendOf(first, second, share) {
  return second ? `${first}(${100 - share})+${second}(${share})` : first;
}

/**
 * Return the voices and the share of a name. An unknown name or a blend of more than two voices
 * is `{first: NAME}`, which the server accepts or rejects.
 */
export function readVoice(request, ids, aliases) {
  // In some links a plus sign has setState a space.
  const parts = request.trim().split(/\s*\+\s*|\s+(?!\()/);
  const read = parts.map((part) => /^([^\s()]+)\s*(?:\(([0-9.]+)\))?$/.exec(part));
  const named = read.map((match) => match && (aliases[match[1]] ?? match[1]));
  if (parts.length > 2 || !named.every((name) => ids.includes(name))) return { first: request };
  if (parts.length === 1) return { first: named[0] };
  const [one, other] = read.map((match) => Number(match[2] ?? 1));
  const share = Math.round((100 * other) / (one + other));
  // A share that rounds to 0 or 100 would not be the requested blend.
  if (!(share >= 1 && share <= 99)) return { first: request };
  return { first: named[0], second: named[1], share };
}
