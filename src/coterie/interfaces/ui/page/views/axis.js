// The axis of a timeline: time from left to right, with the stretches folded in which nothing works.
import { duration } from "page/words.js";

/**
 * @typedef {{from: number, to: number, x: number, width: number, folded: boolean}} Piece seconds, and its place in parts of the whole
 */

const FOLD = 0.02; // the part of the whole that a folded stretch takes

/**
 * The pieces of an axis on which something works in each of `busy`.
 * @param {[number, number][]} busy Unix seconds
 * @param {number} begin
 * @param {number} now what comes after it is not folded: nothing is idle in the future
 * @param {number} end
 * @returns {Piece[]}
 */
export function axis(busy, begin, now, end) {
  /** @type {[number, number][]} */ const merged = [];
  for (const [from, to] of [...busy].sort((a, b) => a[0] - b[0])) {
    const last = merged[merged.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  const work = merged.reduce((sum, [from, to]) => sum + to - from, 0);
  const longest = Math.max(20, work * 0.1); // a shorter pause is shown as it is
  /** @type {{from: number, to: number, folded: boolean}[]} */ const found = [];
  let at = begin;
  for (const [from, to] of [...merged, [Math.min(now, end), end]]) {
    if (from - at > longest) {
      if (found.length && !found[found.length - 1].folded) found[found.length - 1].to = at;
      found.push({ from: at, to: from, folded: true });
      if (to > from) found.push({ from, to, folded: false });
    } else {
      const last = found[found.length - 1];
      if (last && !last.folded) last.to = Math.max(last.to, to);
      else found.push({ from: Math.min(at, from), to, folded: false });
    }
    at = Math.max(at, to);
  }
  const pieces = found.filter((one) => one.to > one.from);
  const folds = pieces.filter((one) => one.folded).length;
  const shown = pieces.reduce((sum, one) => sum + (one.folded ? 0 : one.to - one.from), 0);
  const fold = folds ? Math.min(FOLD, 0.5 / folds) : 0;
  let x = 0;
  return pieces.map((one) => {
    const width = one.folded ? (shown ? fold : 1 / folds) : ((one.to - one.from) / shown) * (1 - folds * fold);
    const piece = { ...one, x, width };
    x += width;
    return piece;
  });
}

/** Where a time is, in parts of the whole. @param {Piece[]} pieces @param {number} at */
export function placeOf(pieces, at) {
  let low = 0, high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pieces[middle].to < at) low = middle + 1;
    else high = middle;
  }
  const piece = pieces[low];
  if (!piece) return 0;
  return piece.x + Math.max(0, Math.min(1, (at - piece.from) / (piece.to - piece.from))) * piece.width;
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];

/**
 * Times to write at the axis, about one for each `every` pixels.
 * @param {Piece[]} pieces
 * @param {number} begin
 * @param {number} pixels of the whole
 * @param {number} every
 * @returns {{at: number, x: number, text: string}[]}
 */
export function ticks(pieces, begin, pixels, every) {
  const found = [];
  let last = -every;
  const open = pieces.filter((one) => !one.folded);
  const rate = open.length ? ((open[0].to - open[0].from) / open[0].width / pixels) * every : 1;
  const step = STEPS.find((one) => one >= rate) ?? STEPS[STEPS.length - 1];
  for (const piece of open) {
    for (let n = Math.ceil((piece.from - begin) / step - 1e-9); begin + n * step <= piece.to; n++) {
      const x = placeOf(open, begin + n * step);
      if (x * pixels - last < every * 0.8) continue;
      last = x * pixels;
      found.push({ at: begin + n * step, x, text: step < 1 ? `${(n * step).toFixed(1)} s` : duration(n * step) });
    }
  }
  return found;
}

/**
 * The end of an axis that grows: a little later than now, and moved only now and then, so that nothing creeps.
 * @param {number} begin
 * @param {number} now
 */
export function roundedEnd(begin, now) {
  const passed = Math.max(1, now - begin);
  const unit = 10 ** Math.floor(Math.log10(passed));
  return begin + ([1.2, 1.5, 2, 2.5, 3, 4, 5, 6.5, 8, 10].find((one) => one * unit >= passed * 1.02) ?? 12) * unit;
}
