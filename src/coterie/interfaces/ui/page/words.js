// Numbers, times and states in words.

/** @param {number} seconds @returns {string} `41 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h` */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (seconds < 1 && seconds > 0.005) return `${seconds.toFixed(seconds < 0.1 ? 2 : 1)} s`;
  if (whole < 60) return `${whole} s`;
  /** @type {[number, string, number, string]} */
  const [big, one, small, two] = whole < 3600 ? [60, "min", 1, "s"] : whole < 86400 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
  const rest = Math.floor((whole % big) / small);
  return `${Math.floor(whole / big)} ${one}${rest ? ` ${rest} ${two}` : ""}`;
}

/** @param {number} at Unix seconds @param {number} now */
export function ago(at, now) {
  const passed = now - at;
  if (Math.abs(passed) < 5) return "just now";
  return passed > 0 ? `${short(passed)} ago` : `in ${short(-passed)}`;
}

/** @param {number} seconds @returns {string} with one unit */
export function short(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }); // made once: that is slow
const NUMBER = new Intl.NumberFormat("en");

/** @param {number} at Unix seconds */
export const absolute = (at) => WHEN.format(at * 1000);

/** @param {number} n @returns {string} `10,000` */
export const grouped = (n) => NUMBER.format(n);

/** @param {number} at @param {number} now the clock time today, else the date */
export function clock(at, now) {
  const then = new Date(at * 1000), today = new Date(now * 1000);
  const time = then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  return then.toDateString() === today.toDateString() ? time : `${then.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${time}`;
}

/** @param {number|null|undefined} usd */
export function money(usd) {
  if (usd === null || usd === undefined) return "–";
  if (usd === 0) return "$0.00";
  return `$${usd.toFixed(Math.abs(usd) < 0.01 ? 4 : 2)}`;
}

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

/** The class and the word of a state: colour, shape and word say the same. */
const STATES = /** @type {Record<string, [string, string]>} */ ({
  pending: ["next", "not begun"],
  running: ["work", "working"],
  waiting: ["wait", "waiting"],
  person: ["wait", "needs you"],
  finished: ["done", "done"],
  completed: ["done", "completed"],
  failed: ["fail", "failed"],
  crashed: ["fail", "crashed"],
  cancelled: ["next", "cancelled"],
  interrupted: ["next", "interrupted"],
  stopped: ["wait", "stopped"],
  "cut off": ["fail", "cut off"],
});

/** @param {string} state @returns {[string, string]} its class and its word */
export const stateWords = (state) => STATES[state] ?? STATES[state.split(":")[0]] ?? ["next", state];

/** The characters that `escapes.py` escapes, which has the one list; a test compares the two. */
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/**
 * Escape what could hide a part of a text from its reader, as the command line does.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, (one) => {
    const code = /** @type {number} */ (one.codePointAt(0));
    const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${mark}${code.toString(16).padStart(Number(digits), "0")}`;
  });
}

/** @param {string} word @returns {string} as a shell takes it */
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
