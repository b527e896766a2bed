// How long a file plays, as far as the browser can tell.

/** Return `{seconds}`, which is filled in once the browser knows; null until then, or for ever. */
export function durationOf(file) {
  const found = { seconds: null };
  const element = new Audio();
  element.preload = "metadata";
  element.src = URL.createObjectURL(file);
  const over = () => URL.revokeObjectURL(element.src);
  element.onloadedmetadata = () => {
    if (Number.isFinite(element.duration)) found.seconds = element.duration;
    over();
  };
  element.onerror = over;
  return found;
}
