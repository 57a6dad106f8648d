// Each record of a run as its sentence: filtered by run, turn, kind and text; the raw record is one key away.
import { html, useEffect, useRef, useState } from "page/base.js";
import { ActionButton } from "page/actions.js";
import { forking } from "page/forks.js";
import { go, useAddress, withQuery } from "page/address.js";
import { Command, Empty, Problem, Text, Typed } from "page/parts.js";
import { api, useFetched } from "page/store.js";
import { absolute, count, duration, quoted, visible } from "page/words.js";
import { addressOf } from "page/views/addresses.js";
import { located } from "page/views/turn.js";
import { Windowed } from "page/views/windowed.js";

const PAGE = 200; // records of one request

/** @param {{state: any, version: number, runKey: string, turn: string, select: (turn: string) => void}} given */
export function Records({ state, runKey, turn, select }) {
  const { query } = useAddress();
  const root = state.here.run.run;
  const [below, kind, text, only] = ["in", "kind", "find", "only"].map((name) => query.get(name) ?? "");
  const run = below ? `${root}/${below}` : root;
  const chosen = turn ? located(root, turn) : null;
  const wanted = only && chosen && chosen.run === run ? chosen.id : "";
  const set = (/** @type {Record<string, string>} */ values) => go(withQuery({ record: "", ...values }), true);
  const asked = new URLSearchParams({ run: below, topic: kind, q: text, turn: wanted, limit: String(PAGE) }).toString();
  const { lines, of, topics, problem, show } = usePages(`/api/runs/${encodeURIComponent(runKey)}/records?${asked}`, state.position[run] ?? 0);
  const seq = Number(query.get("record") ?? 0);
  const opened = (/** @type {number} */ n) => lines.get(n);
  const choose = (/** @type {number} */ n) => {
    const line = opened(n);
    if (line) go(withQuery({ record: line.seq === seq ? "" : String(line.seq), ...(line.turn ? { turn: addressOf(root, run, line.turn) } : {}) }), true);
  };
  const onKey = (/** @type {number} */ n, /** @type {KeyboardEvent} */ event) => {
    const line = opened(n);
    if (event.key === "r" && line) set({ record: line.seq === seq ? "" : String(line.seq) });
    else if (event.key === "Escape" && seq) set({});
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const runs = Object.keys(state.runs).sort();
  const began = state.runs[run]?.started ?? 0;
  return html`<div class="panel records">
    <div class="choices" role="search" aria-label="Filter the records">
      <label>text <${Typed} value=${text} set=${(/** @type {string} */ find) => set({ find })} label="Text of a record" /></label>
      <label>kind <select value=${kind} onChange=${(/** @type {any} */ event) => set({ kind: event.target.value })}><option value="">all</option>
        ${groups(topics).map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      ${runs.length > 1 && html`<label>run <select value=${below} onChange=${(/** @type {any} */ event) => set({ in: event.target.value })}>
        ${runs.map((one) => html`<option key=${one} value=${one === root ? "" : one.slice(root.length + 1)}>${one === root ? "the whole run" : visible(one.slice(root.length + 1))}</option>`)}</select></label>`}
      <label class="tick"><input type="checkbox" checked=${Boolean(only)} disabled=${!only && !turn} onChange=${(/** @type {any} */ event) => set({
        only: event.target.checked ? "1" : "", in: event.target.checked && chosen && chosen.run !== root ? chosen.run.slice(root.length + 1) : below })} />
        ${turn ? html`only <${Text} text=${turn} />` : "only the chosen turn"}</label>
      <span class="quiet push" role="status">${of === null ? "" : count(of, "record")}</span></div>
    ${problem && html`<${Problem} text=${problem} />`}
    ${of === 0 ? html`<${Empty}>No record fits. <a href=${withQuery({ find: "", kind: "", only: "", in: "" })}>Show all</a><//>`
      : html`<${Windowed} count=${of ?? 0} height=${26} label="Records" choose=${choose} onKey=${onKey} onRange=${show} atEnd=${!state.runs[run]?.finished && !seq}
        attributes=${(/** @type {number} */ n) => {
          const line = opened(n);
          return { class: `line ${line && line.seq === seq ? "chosen" : ""} ${line && chosen && line.turn === chosen.id && run === chosen.run ? "of-turn" : ""}`, "aria-current": line && line.seq === seq ? "true" : null };
        }} row=${(/** @type {number} */ n) => html`<${Line} line=${opened(n)} began=${began} />`} />
        <p class="quiet keys"><kbd>Enter</kbd> goes to the turn and opens the record, <kbd>r</kbd> only opens it</p>`}
    ${seq > 0 && html`<${Raw} key=${seq} runKey=${runKey} below=${below} run=${run} option=${state.here.run.option} seq=${seq} epoch=${state.runs[root].epoch} close=${() => set({})} />`}</div>`;
}

/** @param {{line: any, began: number}} given */
function Line({ line, began }) {
  if (!line) return html`<span class="quiet">…</span>`;
  const text = visible(line.text);
  return html`<span class="when" title=${began ? absolute(began + line.seconds) : ""}>${duration(line.seconds)}</span><code class="kind cut">${line.topic}</code><span class="cut" title=${text}><bdi>${text}</bdi></span>`;
}

/** A record as it was written. @param {{runKey: string, below: string, run: string, option: string, seq: number, epoch: number, close: () => void}} given */
function Raw({ runKey, below, run, option, seq, epoch, close }) {
  const query = new URLSearchParams({ run: below, seq: String(seq) });
  const { value, problem } = useFetched(`/api/runs/${encodeURIComponent(runKey)}/record?${query}`);
  return html`<section class="raw" aria-label=${`Record ${seq}`}><div class="actions"><h2>Record ${seq}</h2>
      ${!below && html`<${ActionButton} label="Fork from here…" runKey=${runKey} epoch=${epoch} plan=${forking({ at: seq })} />`}<button class="small push" data-close onClick=${close}>close <kbd>r</kbd></button></div>
    ${problem && html`<${Problem} text=${problem} />`}
    ${value && html`<pre class="text" tabindex="0" data-raw>${visible(JSON.stringify(value, null, 2))}</pre>`}
    <${Command} line=${`coterie inspect ${quoted(run)} journal --from ${seq} --limit 1 --json${option}`} /></section>`;
}

/** Kinds of records, and what they have in common: `turn.`. @param {string[]} topics */
function groups(topics) {
  const found = new Set(topics);
  for (const one of topics) {
    const group = one.slice(0, one.indexOf(".") + 1);
    if (group && topics.filter((other) => other.startsWith(group)).length > 1) found.add(group);
  }
  return [...found].sort();
}

/**
 * Pages of a list that are fetched as they are shown, and the last of them again as the list grows.
 * @param {string} path
 * @param {number} sign grows with the list
 */
function usePages(path, sign) {
  const [, again] = useState(0);
  const kept = useRef({ path: "", lines: new Map(), of: /** @type {number|null} */ (null), topics: /** @type {string[]} */ ([]), problem: "", asked: new Map(), range: [0, 60], sign });
  if (kept.current.path !== path) kept.current = { ...kept.current, path, lines: new Map(), of: null, problem: "", asked: new Map(), range: [0, 60] };
  const fetchPage = (/** @type {number} */ page) => {
    const mine = kept.current;
    if (mine.asked.get(page) === "now") return;
    mine.asked.set(page, "now");
    const { sign } = mine;
    api(`${mine.path}&from=${page * PAGE + 1}`).then((found) => {
      if (kept.current !== mine) return;
      found.lines.forEach((/** @type {any} */ line, /** @type {number} */ n) => mine.lines.set(page * PAGE + n, line));
      mine.of = found.of;
      mine.topics = found.topics;
      mine.problem = "";
      mine.asked.set(page, found.lines.length < PAGE ? "part" : "whole");
      if (found.lines.length < PAGE && mine.sign !== sign) fetchPage(page); // more was written meanwhile
    }, (error) => {
      mine.asked.delete(page);
      mine.problem = error.message;
    }).finally(() => kept.current === mine && again((n) => n + 1));
  };
  const show = (/** @type {number} */ first, /** @type {number} */ last) => {
    kept.current.range = [first, last];
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) if (!kept.current.asked.has(page)) fetchPage(page);
  };
  useEffect(() => show(0, 1), [path]);
  const timer = useRef(/** @type {any} */ (0));
  const refresh = () => {
    timer.current = 0;
    const mine = kept.current;
    if (mine.of === null) return;
    const [first, last] = mine.range;
    for (const [page, how] of mine.asked) if (how === "part") mine.asked.delete(page);
    show(first, last);
    const end = Math.floor(mine.of / PAGE);
    if (!mine.asked.has(end)) fetchPage(end);
  };
  useEffect(() => {
    if (kept.current.sign === sign) return;
    kept.current.sign = sign;
    timer.current ||= setTimeout(refresh, 300); // not for each of a thousand records in a second
  }, [sign]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return { ...kept.current, show };
}
