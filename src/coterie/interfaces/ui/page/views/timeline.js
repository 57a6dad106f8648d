// One lane an agent: its attempts as bars on one axis, what it waited for in its own shade, idle stretches folded.
import { html, useMemo, useState } from "page/base.js";
import { Empty, endOf, useNow } from "page/parts.js";
import { absolute, duration, short, stateWords, visible } from "page/words.js";
import { addressOf, pathOf } from "page/views/addresses.js";
import { axis, placeOf, roundedEnd, ticks } from "page/views/axis.js";
import { useWidth, Windowed } from "page/views/windowed.js";

/**
 * @typedef {{from: number, to: number|null, look: string, turn: string, words: string}} Bar
 * @typedef {{path: string, bars: Bar[], turns: string[], waits: Map<string, Bar[]>}} Lane of `waits` those for a person or a quota, by turn
 */

const WAITS = /** @type {Record<string, string>} */ ({ person: "waited for a person", quota: "waited for a quota", retry: "paused before the next attempt" });
const HEIGHT = 30;
const RANK = ["done", "next", "retry", "work", "quota", "person", "fail"]; // which one is seen where bars share a pixel

/** @param {{state: any, version: number, turn: string, select: (turn: string) => void}} given */
export function Timeline({ state, version, turn, select }) {
  const root = state.here.run.run;
  const run = state.runs[root];
  const lanes = useMemo(() => lanesOf(state, root), [version]);
  const [box, width] = useWidth();
  const [zoom, setZoom] = useState({ size: 1, left: 0 });
  const now = useNow();
  const still = endOf(state, run);
  const begin = run.started ?? run.at;
  const end = still ?? now;
  const pieces = useMemo(() => {
    /** @type {[number, number][]} */ const busy = [];
    for (const lane of lanes) for (const bar of lane.bars) if (!isWait(bar)) busy.push(...without(bar, lane.waits.get(bar.turn) ?? [], end));
    return axis(busy, begin, end, still ?? roundedEnd(begin, now));
  }, [lanes, still, still === null ? roundedEnd(begin, now) : 0, still === null ? Math.floor(now / 5) : 0]);
  if (!lanes.length) return html`<${Empty}>No turn has begun yet. It appears here once one does.<//>`;
  const wide = width >= 520;
  const names = wide ? Math.min(210, 26 + 8 * Math.max(...lanes.map((lane) => lane.path.length))) : 0;
  const track = Math.max(60, width - names);
  /** The pixel of a time. @param {number} at */
  const pixel = (at) => (placeOf(pieces, at) - zoom.left) * zoom.size * track;
  const marks = run.owners.slice(1);
  const folds = pieces.filter((one) => one.folded);
  const zoomTo = (/** @type {number} */ size, /** @type {number} */ middle) => {
    const kept = Math.max(1, Math.min(4096, size));
    setZoom({ size: kept, left: Math.max(0, Math.min(1 - 1 / kept, middle - 0.5 / kept)) });
  };
  const middle = zoom.left + 0.5 / zoom.size;
  const chosen = turn ? lanes.findIndex((lane) => lane.turns.includes(turn)) : -1;
  const step = (/** @type {Lane} */ lane, /** @type {number} */ by) => {
    const at = lane.turns.indexOf(turn);
    const next = lane.turns[at < 0 ? (by > 0 ? 0 : lane.turns.length - 1) : Math.max(0, Math.min(lane.turns.length - 1, at + by))];
    select(next);
    const bar = lane.bars.find((one) => one.turn === next);
    const x = bar ? placeOf(pieces, bar.from) : 0;
    if (zoom.size > 1 && (x < zoom.left || x > zoom.left + 1 / zoom.size)) zoomTo(zoom.size, x);
  };
  const onKey = (/** @type {number} */ n, /** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) step(lanes[n], by);
    else if (event.key === "+" || event.key === "-") zoomTo(zoom.size * (event.key === "+" ? 2 : 0.5), middle);
    else if (event.key === "0") zoomTo(1, 0.5);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const frame = (/** @type {any[]} */ inner, /** @type {number} */ height, /** @type {any} */ more = {}) =>
    html`<svg class="track" width=${track} height=${height} viewBox="0 0 ${track} ${height}" ...${more}>${inner}</svg>`;
  const under = html`${folds.map((one) => html`<rect class="fold" key=${one.from} x=${pixel(one.from)} y="0" width=${Math.max(2, pixel(one.to) - pixel(one.from))} height=${HEIGHT} />`)}
    ${marks.map((/** @type {any} */ one) => html`<path class="owner" key=${one.epoch} d="M${pixel(one.at)} 0V${HEIGHT}" />`)}
    ${still === null && html`<path class="now" d="M${pixel(now)} 0V${HEIGHT}" />`}`;
  const shown = lanes.reduce((sum, lane) => sum + lane.turns.length, 0);
  return html`<div class="panel timeline ${wide ? "" : "tight"}"><${Patterns} />
    <div class="choices"><${Legend} looks=${new Set(lanes.flatMap((lane) => lane.bars.map((bar) => bar.look)))} folds=${folds.length} />
      <span class="push quiet" role="group" aria-label="Zoom"><button class="small" aria-label="Earlier" disabled=${zoom.left <= 0} onClick=${() => zoomTo(zoom.size, middle - 0.5 / zoom.size)}>←</button>
        <button class="small" aria-label="Zoom out" disabled=${zoom.size <= 1} onClick=${() => zoomTo(zoom.size / 2, middle)}>−</button>
        <button class="small" aria-label="Zoom in" onClick=${() => zoomTo(zoom.size * 2, middle)}>+</button>
        <button class="small" aria-label="Later" disabled=${zoom.left + 1 / zoom.size >= 1} onClick=${() => zoomTo(zoom.size, middle + 0.5 / zoom.size)}>→</button>
        <button class="small" disabled=${zoom.size <= 1} onClick=${() => zoomTo(1, 0.5)}>all</button></span></div>
    <div ref=${box}></div>
    ${width > 0 && html`<div class="lane axis" style=${{ paddingLeft: `${names}px` }}>${frame([
      ticks(pieces, begin, zoom.size * track, 90).map(({ at, text }) => ({ x: pixel(at), at, text })).filter(({ x }) => x >= -1 && x <= track).map(({ x, at, text }) =>
        html`<text key=${at} x=${Math.max(1, Math.min(track - 8, x))} y="11" text-anchor=${x < 20 ? "start" : x > track - 40 ? "end" : "middle"}><title>${absolute(at)}</title>${text}</text>`),
      folds.map((one) => [one, pixel(one.from), pixel(one.to)]).filter(([, a, b]) => Number(b) > 0 && Number(a) < track).map(([one, a, b]) => {
        const middle = (Math.max(0, Number(a)) + Math.min(track, Number(b))) / 2;
        const text = `idle ${short(/** @type {any} */ (one).to - /** @type {any} */ (one).from)}`;
        return html`<text class="idle" key=${`f${/** @type {any} */ (one).from}`} x=${Math.max(28, Math.min(track - 28, middle))} y="25" text-anchor="middle"><title>${`nothing worked from ${absolute(/** @type {any} */ (one).from)} to ${absolute(/** @type {any} */ (one).to)}`}</title>${text}</text>`;
      }),
      marks.map((/** @type {any} */ one) => html`<g key=${one.epoch} class="owner-mark"><title>${`another process took the run over, ${absolute(one.at)}`}</title><path d="M${pixel(one.at)} 30l-4 -6h8z" /></g>`),
    ], 30, { role: "img", "aria-label": axisWords(begin, end, folds, marks) })}</div>
    <${Windowed} count=${lanes.length} height=${wide ? HEIGHT : HEIGHT + 18} label=${`Timeline: ${lanes.length} agents, ${shown} turns. Left and right walk over the turns of an agent.`}
      shown=${chosen} onKey=${onKey} choose=${(/** @type {number} */ n) => lanes[n].turns.includes(turn) || step(lanes[n], 1)}
      attributes=${(/** @type {number} */ n) => ({ "aria-label": laneWords(lanes[n]), class: `line lane ${n === chosen ? "chosen" : ""}` })}
      row=${(/** @type {number} */ n) => html`<span class="who cut" style=${wide ? { width: `${names}px` } : {}} title=${visible(lanes[n].path)}><bdi>${visible(lanes[n].path)}</bdi></span>
        ${frame([under, drawn(lanes[n], pixel, end, track).map((bar) => html`<${Bars} key=${bar.from} bar=${bar} chosen=${bar.turns.includes(turn)} select=${select} />`)], HEIGHT, { "aria-hidden": "true" })}`} />`}
    <p class="quiet keys"><kbd>←</kbd> <kbd>→</kbd> turn, <kbd>↑</kbd> <kbd>↓</kbd> agent, <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> zoom</p></div>`;
}

/** @param {Bar} bar */
const isWait = (bar) => bar.look in WAITS;

/**
 * When an attempt was at work: not while it waited.
 * @param {Bar} bar @param {Bar[]} waits of its turn, in the order of time @param {number} end
 */
function without(bar, waits, end) {
  /** @type {[number, number][]} */ const found = [];
  let at = bar.from;
  for (const wait of waits) {
    if (wait.from > at) found.push([at, Math.min(wait.from, bar.to ?? end)]);
    at = Math.max(at, wait.to ?? end);
  }
  if ((bar.to ?? end) > at) found.push([at, bar.to ?? end]);
  return found;
}

/** @param {{bar: any, chosen: boolean, select: (turn: string) => void}} given */
function Bars({ bar, chosen, select }) {
  const thin = bar.look === "retry";
  const choose = (/** @type {Event} */ event) => {
    event.stopPropagation();
    select(bar.turns[0]);
  };
  return html`<g class="piece ${bar.look} ${chosen ? "chosen" : ""}" data-turn=${bar.turns[0]} onClick=${choose}><title>${visible(bar.words)}</title>
    <rect x=${bar.x} y=${thin ? 12 : 8} width=${bar.width} height=${thin ? 6 : 14} rx=${bar.width > 6 ? 3 : 0} />
    ${bar.look === "fail" && bar.width > 9 && html`<path class="cross" d="M${bar.x + bar.width - 8} 12l5 5m0-5l-5 5" />`}</g>`;
}

/** The stripes of what waits: seen without colour, too. */
const Patterns = () => html`<svg class="patterns" aria-hidden="true"><defs>${[["person", "M-2 8L8 -2M4 12L12 4"], ["quota", "M4 0V8"]].map(([name, path]) =>
  html`<pattern key=${name} id=${`for-${name}`} width=${name === "person" ? 8 : 5} height="8" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="8" /><path class=${`stripe-${name}`} d=${path} /></pattern>`)}</defs></svg>`;

/** @param {{looks: Set<string>, folds: number}} given */
function Legend({ looks, folds }) {
  const words = /** @type {[string, string][]} */ ([["done", "done"], ["work", "working"], ["fail", "failed"], ["next", "cancelled"], ["person", "waits for a person"], ["quota", "waits for a quota"], ["retry", "pause before the next attempt"]]);
  return html`<span class="legend">${words.filter(([look]) => looks.has(look)).map(([look, word]) => html`<span key=${look}><svg width="18" height="12" aria-hidden="true"><g class="piece ${look}"><rect x="0" y="0" width="18" height="12" rx="3" />${
    look === "fail" && html`<path class="cross" d="M7 3.5l5 5m0-5l-5 5" />`}</g></svg> ${word}</span>`)}${folds > 0 && html`<span><svg width="18" height="12" aria-hidden="true"><rect class="fold" width="18" height="12" /></svg> idle, folded</span>`}</span>`;
}

/** The lanes, in the order in which agents began. @param {any} state @param {string} root @returns {Lane[]} */
function lanesOf(state, root) {
  /** @type {Map<string, Lane>} */ const lanes = new Map();
  for (const row of Object.values(state.turns)) {
    if (row.state === "pending" && !row.attempts.length && !row.waits.length) continue;
    const path = pathOf(state, row);
    let lane = lanes.get(path);
    if (!lane) lanes.set(path, (lane = { path, bars: [], turns: [], waits: new Map() }));
    const turn = addressOf(root, row.run, row.id);
    lane.turns.push(turn);
    for (const one of row.attempts) {
      const [look, word] = stateWords(one.state);
      const isOpen = one.finished === null;
      const words = `${turn}${row.attempts.length > 1 ? ` attempt ${one.n}` : ""}: ${word}${isOpen ? "" : ` in ${duration(one.finished - one.started)}`}${one.reason ? `: ${one.reason}` : ""}`;
      lane.bars.push({ from: one.started, to: isOpen ? stopped(state, row) : one.finished, look, turn, words });
    }
    for (const one of row.waits) {
      const words = `${turn} ${WAITS[one.why] ?? one.why}${one.end === null ? "" : ` for ${duration(one.end - one.begin)}`}`;
      const bar = { from: one.begin, to: one.end ?? stopped(state, row), look: one.why, turn, words };
      lane.bars.push(bar);
      if (one.why !== "retry") lane.waits.set(turn, [...(lane.waits.get(turn) ?? []), bar]);
    }
  }
  return [...lanes.values()];
}

/** When what is open in a turn ended without a record; null: it goes on. @param {any} state @param {any} row */
function stopped(state, row) {
  const run = state.runs[row.run];
  if (state.here.run.owned && !run.finished) return null;
  return row.finished ?? run.finished ?? run.at;
}

/**
 * The bars of a lane on its track; those that share pixels are one, so that there are never more than pixels.
 * @param {Lane} lane @param {(at: number) => number} pixel @param {number} end @param {number} track
 */
function drawn(lane, pixel, end, track) {
  /** @type {any[]} */ const found = [];
  const attempts = lane.bars.filter((one) => !isWait(one));
  for (const bars of [attempts, lane.bars.filter(isWait)]) {
    /** @type {any} */ let last = null;
    for (const bar of bars) {
      const x = pixel(bar.from), to = pixel(bar.to ?? end);
      if (to < 0 || x > track || (bar.look === "retry" && to - x < 2)) continue;
      const width = Math.max(1.5, Math.min(track + 2, to) - Math.max(-2, x));
      const dense = last && x < last.x + last.width + 0.5 && last.width < 3 && width < 3;
      if (dense) {
        last.width = Math.max(last.width, x + width - last.x);
        last.turns.push(bar.turn);
        last.words = `${last.turns.length} attempts from ${last.turns[0]} to ${bar.turn}: zoom in to see each`;
        if (RANK.indexOf(bar.look) > RANK.indexOf(last.look)) last.look = bar.look;
      } else found.push((last = { ...bar, x: Math.max(-2, x), width, turns: [bar.turn] }));
    }
  }
  return found; // what waits lies above the attempt that waits
}

/** @param {Lane} lane */
function laneWords(lane) {
  const attempts = lane.bars.filter((one) => !isWait(one));
  const failed = attempts.filter((one) => one.look === "fail").length;
  const waits = lane.bars.filter((one) => one.look === "person" || one.look === "quota").length;
  const last = attempts[attempts.length - 1];
  return visible(`${lane.path}: ${lane.turns.length} turns${failed ? `, ${failed} failed attempts` : ""}${waits ? `, waited ${waits} times` : ""}${last ? `; last ${last.words}` : ""}`);
}

/** @param {number} begin @param {number} end @param {any[]} folds @param {any[]} marks */
function axisWords(begin, end, folds, marks) {
  const idle = folds.map((one) => `${duration(one.to - one.from)} after ${duration(one.from - begin)}`).join(", ");
  return `Time axis of ${duration(end - begin)}${idle ? `; idle for ${idle}` : ""}${marks.length ? `; another process took over after ${marks.map((one) => duration(one.at - begin)).join(", ")}` : ""}`;
}
