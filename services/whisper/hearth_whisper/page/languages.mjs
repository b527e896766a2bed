// The languages that whisper knows, as people call them.

const CODES =
  "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he " +
  "hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl " +
  "nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk ur uz " +
  "vi yi yo zh yue";

/** Return `{code, name}` of every language that a model writes, by name. */
export function languagesOf(model) {
  const codes = /\.en$/.test(model) ? ["en"] : CODES.split(" ");
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const known = codes.map((code) => ({ code, name: names.of(code) }));
  return known.sort((one, two) => one.name.localeCompare(two.name, "en"));
}
