// Two runs side by side: aligned by turn up to the first in which they differ, then what each was asked and did.
import { html, useState } from "page/base.js";
import { go, runPath, useAddress, withQuery } from "page/address.js";
import { Command, Empty, Lasted, Problem, State, Text } from "page/parts.js";
import { serverNow, useFetched, useTopic } from "page/store.js";
import { absolute, clock, count, money, quoted, visible } from "page/words.js";
import { lineDiff } from "page/views/line-diff.js";
import { Windowed } from "page/views/windowed.js";

export function Compare() {
  const { query } = useAddress();
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const path = a && b ? `/api/diff?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}` : "";
  const { value, problem } = useFetched(path);
  document.title = "Two runs · Coterie";
  return html`<h1>Two runs</h1>
    <div class="choices"><${Side} name="a" value=${a} like="" /><${Side} name="b" value=${b} like=${value?.a.topology ?? ""} />
      ${a && b && html`<button class="small" onClick=${() => go(withQuery({ a: b, b: a }), true)}>swap</button>`}</div>
    ${problem && html`<${Problem} text=${problem} />`}
    ${path ? value ? html`<${Both} value=${value} keys=${[a, b]} turn=${query.get("turn") ?? ""} />` : !problem && html`<p class="quiet">Comparing …</p>`
      : html`<${Empty}>Choose two runs above. In a terminal: <code>coterie runs diff A B</code>.<//>`}`;
}

/** Chooses a run, those of the same team first. @param {{name: string, value: string, like: string}} given */
function Side({ name, value, like }) {
  const { state } = useTopic("home?limit=200");
  const rows = state ? state.order.map((/** @type {string} */ key) => state.rows[key]).filter(Boolean) : [];
  const near = rows.filter((/** @type {any} */ row) => like && row.team === like), far = rows.filter((/** @type {any} */ row) => !like || row.team !== like);
  const option = (/** @type {any} */ row) => html`<option key=${row.key} value=${row.key}>${visible([row.team, row.prompt && `“${row.prompt.slice(0, 60)}”`, clock(row.started, serverNow()), row.words, row.run].filter(Boolean).join(" · "))}</option>`;
  return html`<label>${name} <select value=${value} aria-label=${`Run ${name}`} onChange=${(/** @type {any} */ event) => go(withQuery({ [name]: event.target.value, turn: "" }), true)}>
    <option value="">choose a run</option>${value && !rows.some((/** @type {any} */ row) => row.key === value) && html`<option value=${value}>${visible(value)}</option>`}
    ${near.length > 0 && html`<optgroup label="same team">${near.map(option)}</optgroup>`}${far.map(option)}</select></label>`;
}

/** @param {{value: any, keys: string[], turn: string}} given */
function Both({ value, keys, turn }) {
  const { pairs, same, first } = value;
  const [whole, setWhole] = useState(false);
  const kept = whole || same < 3 ? pairs : pairs.slice(same);
  const folded = pairs.length - kept.length;
  const sides = /** @type {[any, any]} */ ([value.a, value.b]);
  const shown = turn || first;
  const select = (/** @type {number} */ n) => go(withQuery({ turn: kept[n].turn }), true);
  return html`<div class="sides">${sides.map((run, n) => html`<section key=${n} class="panel" aria-label=${`Run ${"ab"[n]}`}>
      <div class="actions"><h2><a href=${runPath(keys[n])}>${"ab"[n]} · <${Text} text=${run.topology} /></a></h2><${State} state=${run.state} words=${run.words} /></div>
      <p class="cut"><${Text} text=${run.prompt} /></p>
      <p class="quiet">${count(run.turns, "turn")} · ${money(run.cost)}${run.started ? html` · <${Lasted} from=${run.started} to=${run.finished ?? run.at} /> · ${absolute(run.started)}` : null}</p></section>`)}</div>
    <p role="status" class="verdict">${verdict(value)}</p>
    ${folded > 0 && html`<button class="small" aria-expanded="false" onClick=${() => setWhole(true)}>show ${folded === 1 ? "the turn that is" : `the ${folded} turns that are`} the same</button>`}
    ${kept.length > 0 && html`<div class="panel"><div class="pair head quiet" aria-hidden="true"><span>turn</span><span>a</span><span>b</span><span>differs in</span></div>
      <${Windowed} count=${kept.length} height=${28} label="Turns of both runs" choose=${select} shown=${kept.findIndex((/** @type {any} */ pair) => pair.turn === shown)}
        attributes=${(/** @type {number} */ n) => ({ class: `line pair ${kept[n].turn === shown ? "chosen" : ""}`, "data-turn": kept[n].turn })}
        row=${(/** @type {number} */ n) => html`<b class="cut"><${Text} text=${kept[n].turn} /></b>${[kept[n].a, kept[n].b].map((side, at) => html`<span key=${at} class="cut">${side ? html`<${State} state=${side.state} /> <span class="quiet">${money(costOf(side))}</span>` : html`<span class="quiet">not there</span>`}</span>`)}
          <span class="cut quiet">${kept[n].differs.length ? kept[n].differs.join(", ") : "the same"}</span>`} /></div>`}
    ${shown && html`<${Pair} key=${shown} pair=${pairs.find((/** @type {any} */ pair) => pair.turn === shown)} prompts=${shown === first ? value.prompts : null} keys=${keys} isFirst=${shown === first} />`}
    <${Command} line=${`coterie runs diff ${quoted(value.a.id)} ${quoted(value.b.id)}`} />`;
}

/** @param {any} side a turn */
const costOf = (side) => side.cost ?? side.usage?.cost ?? null;

/** @param {any} value */
function verdict({ differs, same, first, pairs }) {
  const heads = differs.length ? `The runs have another ${differs.join(" and another ")}. ` : "";
  if (!first) return `${heads}All ${count(pairs.length, "turn")} are the same.`;
  const turn = pairs.find((/** @type {any} */ pair) => pair.turn === first);
  const what = turn.differs.includes("missing") ? `is only in ${turn.a ? "a" : "b"}` : `differs in ${turn.differs.join(", ")}`;
  return html`${heads}${same ? `The first ${count(same, "turn")} ${same === 1 ? "is" : "are"} the same; then ` : "From the start: "}<b><${Text} text=${first} /></b> ${what}.`;
}

/** A turn in both runs. @param {{pair: any, prompts: [string, string]|null, keys: string[], isFirst: boolean}} given */
function Pair({ pair, prompts, keys, isFirst }) {
  const asked = keys.map((key, n) => useFetched(!prompts && (n ? pair?.b : pair?.a) ? `/api/runs/${encodeURIComponent(key)}/turn?turn=${encodeURIComponent(pair.turn)}` : ""));
  if (!pair) return html`<${Problem} text="neither run has this turn" />`;
  const texts = prompts ?? asked.map((one) => one.value?.prompt ?? "");
  const outputs = [pair.a, pair.b].map((side) => (side ? Object.entries(side.outputs ?? {}).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n") : ""));
  const answers = [pair.a, pair.b].map((side) => (side ? side.reason && side.state !== "finished" ? side.reason : side.text ?? "" : ""));
  const parts = /** @type {[string, string[]][]} */ ([["Prompt", texts], ["Answer", answers], ["Outputs", outputs]]);
  return html`<section aria-label=${`Turn ${pair.turn} in both runs`} class="panel difference"><h2><${Text} text=${pair.turn} />${isFirst ? ": the first that differs" : ""}</h2>
    <div class="sides">${[pair.a, pair.b].map((side, n) => html`<div key=${n}><b>${"ab"[n]}</b> · ${side ? html`<span><a href=${runPath(keys[n], "", pair.turn)}><${State} state=${side.state} /></a> · ${money(costOf(side))} · ${count(side.attempts.length ?? side.attempts, "attempt")}</span>` : html`<span class="quiet">not there</span>`}</div>`)}</div>
    ${parts.map(([title, [one, other]]) => (one || other) && html`<h3 key=${title}>${title}${one === other ? " · the same" : ""}</h3>${one === other ? html`<pre class="text" key=${`${title}=`} tabindex="0"><${Text} text=${one} /></pre>`
      : html`<${Lines} key=${`${title}≠`} one=${one} other=${other} title=${title} />`}`)}</section>`;
}

/** Two texts by lines, each with a mark of what only it has. @param {{one: string, other: string, title: string}} given */
function Lines({ one, other, title }) {
  const rows = lineDiff(one.split("\n"), other.split("\n"));
  return html`<div class="sides">${[0, 1].map((n) => html`<pre key=${n} class="text by-line" tabindex="0" aria-label=${`${title} of ${"ab"[n]}`}>${rows.map((row, at) => row[n] !== null && html`<span key=${at} class=${row[1 - n] === null ? "only" : ""}>${
    row[1 - n] === null ? html`<span class="sign">${n ? "+ " : "− "}</span>` : html`<span class="sign">  </span>`}<bdi>${visible(String(row[n]))}</bdi>${"\n"}</span>`)}</pre>`)}</div>`;
}
