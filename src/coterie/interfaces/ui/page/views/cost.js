// What a run cost: by agent, model and turn, and over time, beside its budget and the proved worst case.
import { html, useRef } from "page/base.js";
import { Command, Empty, Problem, Text, useNow } from "page/parts.js";
import { useFetched } from "page/store.js";
import { count, duration, grouped, money, quoted, visible } from "page/words.js";
import { useWidth, Windowed } from "page/views/windowed.js";

/** @param {{state: any, runKey: string, turn: string, select: (turn: string) => void}} given */
export function Cost({ state, runKey, turn, select }) {
  const run = state.runs[state.here.run.run];
  const { value, problem } = useFetched(`/api/runs/${encodeURIComponent(runKey)}/cost`, useSlowly(run.done + run.cost)); // another whenever a turn has ended
  const last = useRef(/** @type {any} */ (null));
  if (value) last.current = value;
  const found = last.current;
  if (!found) return problem ? html`<${Problem} text=${problem} />` : html`<p class="quiet">Adding up …</p>`;
  const { total, worst, budget } = found;
  return html`<div class="panel cost">${problem && html`<${Problem} text=${problem} />`}
    <div class="facts">
      <div><span>spent</span><b>${money(total.cost)}</b></div>
      <div><span>budget</span><b>${budget === null ? "none" : `${money(budget)}${total.cost ? `, ${Math.round((100 * total.cost) / budget)} % spent` : ""}`}</b></div>
      <div><span>at most, proved</span><b>${worst && worst.turns !== null ? `${count(worst.turns, "turn")}${worst.cost === null ? "" : `, ${money(worst.cost)}`}` : "no bound"}</b></div>
      <div><span>tokens in · out</span><b>${grouped(total.input_tokens)} · ${grouped(total.output_tokens)}</b></div>
      <div><span>attempts with usage</span><b>${grouped(total.attempts)}</b></div>
      ${total.unpriced > 0 && html`<div><span>without a price</span><b class="wait">${count(total.unpriced, "attempt")}</b></div>`}</div>
    ${total.attempts === 0 ? html`<${Empty}>No attempt has used anything yet: money, tokens and time appear here as attempts end.<//>` : total.cost > 0 ? html`<${OverTime} points=${found.points} begin=${run.started} budget=${budget} worst=${worst?.cost ?? null} />`
      : html`<${Empty}>Nothing has cost money yet: programs and local models are free. Tokens and time are below.<//>`}
    ${total.attempts > 0 && html`<div class="tables"><${Table} title="By agent" rows=${found.by_agent} total=${total} />
      <${Table} title="By model" rows=${found.by_model} total=${total} />
      <${Table} title="By turn" rows=${found.by_turn} total=${total} turn=${turn} select=${select} /></div>`}
    <${Command} line=${`coterie inspect ${quoted(run.id)} cost${state.here.run.option}`} /></div>`;
}

/** A number that changes every two seconds at most: the sums of a long run are not free. @param {number} value */
function useSlowly(value) {
  const now = useNow();
  const shown = useRef({ at: 0, value });
  if (value !== shown.current.value && now - shown.current.at >= 2) shown.current = { at: now, value };
  return shown.current.value;
}

/** @param {{title: string, rows: Record<string, any>, total: any, turn?: string, select?: (turn: string) => void}} given */
function Table({ title, rows, total, turn = "", select }) {
  const order = useRef(/** @type {string[]} */ ([]));
  const known = new Set(order.current);
  const more = Object.keys(rows).filter((name) => !known.has(name)); // rows that are there do not change their places
  const weight = (/** @type {string} */ name) => [rows[name].cost, rows[name].output_tokens, rows[name].seconds];
  more.sort((a, b) => weight(b).map((value, n) => value - weight(a)[n]).find(Boolean) ?? 0);
  if (more.length) order.current = [...order.current.filter((name) => rows[name]), ...more];
  const names = order.current;
  const by = total.cost ? "cost" : total.output_tokens ? "output_tokens" : "seconds";
  return html`<section aria-label=${title}><h2>${title}${names.length > 8 ? ` · ${names.length}` : ""}</h2>
    <div class="spent head quiet" aria-hidden="true"><span></span><span class="number">cost</span><span class="number">tokens</span><span class="number">time</span></div>
    <${Windowed} count=${names.length} height=${28} label=${`${title}: cost, tokens in and out, time`} shown=${turn ? names.indexOf(turn) : -1} choose=${select && ((/** @type {number} */ n) => select(names[n]))}
      attributes=${(/** @type {number} */ n) => ({ class: `line spent ${turn && names[n] === turn ? "chosen" : ""}` })}
      row=${(/** @type {number} */ n) => {
        const one = rows[names[n]];
        return html`<span class="share" aria-hidden="true" style=${{ width: `${total[by] ? (100 * one[by]) / total[by] : 0}%` }}></span><span class="cut" title=${visible(names[n])}><${Text} text=${names[n] === "(none)" ? "no model" : names[n]} />${one.attempts > 1 ? html` <span class="quiet">×${one.attempts}</span>` : null}</span>
          <span class="number">${money(one.cost)}</span><span class="number quiet">${`${thousands(one.input_tokens)} · ${thousands(one.output_tokens)}`}</span><span class="number">${duration(one.seconds)}</span>`;
      }} /></section>`;
}

/** @param {number} n */
const thousands = (n) => (n < 10_000 ? grouped(n) : n < 10_000_000 ? `${Math.round(n / 1000)}k` : `${Math.round(n / 1e6)}M`);

/** @param {{points: any[], begin: number, budget: number|null, worst: number|null}} given */
function OverTime({ points, begin, budget, worst }) {
  const [box, width] = useWidth();
  const height = 150, foot = 18;
  const total = points[points.length - 1].total, end = points[points.length - 1].at;
  const near = [budget, worst].filter((one) => one !== null && one <= total * 4);
  const top = Math.max(total, ...near.map(Number)) * 1.08 || 1;
  const x = (/** @type {number} */ at) => ((at - begin) / Math.max(end - begin, 1e-6)) * (width - 8) + 4;
  const y = (/** @type {number} */ usd) => (height - foot) * (1 - usd / top) + 2;
  let path = `M${x(begin)} ${y(0)}`, lastX = -1;
  points.forEach((one, n) => {
    if (x(one.at) - lastX < 0.7 && n < points.length - 1) return; // no more corners than pixels
    lastX = x(one.at);
    path += `H${lastX.toFixed(1)}V${y(one.total).toFixed(1)}`;
  });
  const lines = /** @type {[string, number|null, string][]} */ ([["budget", budget, "wait"], ["proved worst case", worst, "fail"]]);
  const words = `Cost over time: ${money(total)} after ${duration(end - begin)}${lines.map(([name, usd]) => (usd === null ? "" : `; ${name} ${money(usd)}`)).join("")}`;
  return html`<div class="chart" ref=${box}><h2>Over time</h2>${width > 0 && html`<svg width=${width} height=${height} role="img" aria-label=${words}>
    <path class="ground" d="M0 ${y(0)}H${width}" /><path class="spent-area" d=${`${path}V${y(0)}Z`} /><path class="spent-line" d=${path} />
    ${lines.map(([name, usd, look]) => usd !== null && (usd <= top ? html`<g key=${name} class=${look}><path class="limit" d="M0 ${y(usd)}H${width}" /><text x="6" y=${Math.max(11, y(usd) - 4)}>${name} ${money(usd)}</text></g>` : null))}
    <text class="axis" x="4" y=${height - 4}>start</text><text class="axis" x=${width - 4} y=${height - 4} text-anchor="end">${duration(end - begin)}, ${money(total)}</text></svg>`}
    ${lines.map(([name, usd]) => usd !== null && usd > top && html`<p class="quiet" key=${name}>${name} ${money(usd)}: above this picture</p>`)}</div>`;
}
