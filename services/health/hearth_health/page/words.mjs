// Moments in words.

const STEPS = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** Return how long ago, or in how long, a moment is: "3 minutes ago"; both are in milliseconds. */
export function relative(moment, now) {
  let value = (moment - now) / 1000;
  // Seconds would change all the time, and nobody reads them.
  if (Math.abs(value) < 60) return value > 0 ? "in a moment" : "just now";
  for (const [size, unit] of STEPS) {
    if (Math.abs(value) < size) return ago.format(Math.round(value), unit);
    value /= size;
  }
  return "";
}
