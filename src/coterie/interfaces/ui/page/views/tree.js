// The live tree: a run, its turns, what became of their attempts, and child runs to any depth.
import { html, useMemo, useState } from "page/base.js";
import { useAddress, withQuery, go } from "page/address.js";
import { Empty, endOf, Lasted, State, Text, Typed } from "page/parts.js";
import { count, money, visible } from "page/words.js";
import { addressOf } from "page/views/addresses.js";
import { countsOf } from "page/views/set.js";
import { Windowed } from "page/views/windowed.js";

/**
 * @typedef {object} Row
 * @property {string} key
 * @property {number} depth
 * @property {string} label
 * @property {string} state
 * @property {string} detail
 * @property {string} turn its address; empty: not a turn
 * @property {number|null} from
 * @property {number|null} to
 * @property {number} cost
 * @property {number} below rows that it has below it
 * @property {boolean} shut whether it is closed until it is opened
 * @property {boolean} isSet
 */

const FEW = 12; // items of a set that are shown at once

/** @param {{state: any, version: number, turn: string, select: (turn: string) => void}} given */
export function Tree({ state, version, turn, select }) {
  const { query } = useAddress();
  const find = (query.get("find") ?? "").toLowerCase();
  const [folded, setClosed] = useState(/** @type {Record<string, boolean>} */ ({}));
  const all = useMemo(() => rowsOf(state), [version]);
  const closed = useMemo(() => ({ ...Object.fromEntries(all.filter((row) => row.shut).map((row) => [row.key, true])), ...folded }), [all, folded]);
  const rows = useMemo(() => shownOf(all, closed, find), [all, closed, find]);
  const chosen = rows.findIndex((row) => row.turn && row.turn === turn);
  const toggle = (/** @type {Row} */ row, /** @type {boolean} */ shut) => setClosed((now) => ({ ...now, [row.key]: shut }));
  const choose = (/** @type {number} */ n) => (rows[n].turn ? select(rows[n].turn) : rows[n].below && toggle(rows[n], !closed[rows[n].key]));
  const onKey = (/** @type {number} */ n, /** @type {KeyboardEvent} */ event) => {
    const row = rows[n];
    if (event.key === "ArrowRight" && row.below) toggle(row, false);
    else if (event.key === "ArrowLeft" && row.below && !closed[row.key]) toggle(row, true);
    else if (event.key === "ArrowLeft") {
      let at = n;
      while (at > 0 && rows[at].depth >= row.depth) at--;
      /** @type {any} */ (event.currentTarget).querySelector?.(`[data-n="${at}"]`)?.focus();
    } else if (event.key === " ") choose(n);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class=${`panel tree ${all.some((row) => row.cost) ? "" : "free"}`}>
    <div class="choices"><label>find <${Typed} value=${query.get("find") ?? ""} set=${(/** @type {string} */ text) => go(withQuery({ find: text }), true)} label="Find in the tree" /></label>
      <button class="small" onClick=${() => setClosed(Object.fromEntries(all.filter((row) => row.shut).map((row) => [row.key, false])))}>open all</button>
      <button class="small" onClick=${() => setClosed(Object.fromEntries(all.filter((row) => row.below && row.depth > 0).map((row) => [row.key, true])))}>close all</button>
      <span class="push quiet" role="status">${count(Object.keys(state.turns).length, "turn")}</span></div>
    ${!rows.length ? html`<${Empty}>Nothing in the tree has this text. <a href=${withQuery({ find: "" })}>Show all</a><//>`
      : html`<${Windowed} count=${rows.length} height=${28} role="tree" rowRole="treeitem" label="The run as a tree" keyOf=${(/** @type {number} */ n) => rows[n].key} shown=${chosen} choose=${choose} onKey=${onKey}
        attributes=${(/** @type {number} */ n) => ({ "aria-level": rows[n].depth + 1, "aria-expanded": rows[n].below ? String(!closed[rows[n].key]) : null, "aria-selected": n === chosen ? "true" : rows[n].turn ? "false" : null,
          class: `line ${n === chosen ? "chosen" : ""} ${rows[n].isSet ? "of-set" : ""}`, "data-turn": rows[n].turn || null })}
        row=${(/** @type {number} */ n) => html`<${Line} row=${rows[n]} isClosed=${closed[rows[n].key]} toggle=${toggle} />`} />`}</div>`;
}

/** @param {{row: Row, isClosed: boolean, toggle: (row: Row, shut: boolean) => void}} given */
function Line({ row, isClosed, toggle }) {
  const fold = (/** @type {Event} */ event) => {
    event.stopPropagation();
    toggle(row, !isClosed);
  };
  return html`<span class="branch" style=${{ paddingLeft: `calc(${Math.min(row.depth, 12)} * var(--indent))` }}><span class="twist" aria-hidden="true" onClick=${row.below ? fold : undefined}>${row.below ? (isClosed ? "▸" : "▾") : ""}</span>
      <b class="cut"><${Text} text=${row.label} /></b></span>
    ${row.state ? html`<${State} state=${row.state} />` : html`<span></span>`}
    <span class="cut detail" title=${visible(row.detail)}><${Text} text=${row.detail} /></span>
    <span class="number">${row.from === null ? "" : html`<${Lasted} from=${row.from} to=${row.to} />`}</span>
    <span class="number">${row.cost ? money(row.cost) : ""}</span>`;
}

/** Every row of the tree, in the order of a reader. @param {any} state @returns {Row[]} */
function rowsOf(state) {
  const root = state.here.run.run;
  /** @type {Map<string, any[]>} */ const turns = new Map();
  for (const row of Object.values(state.turns)) {
    const known = turns.get(row.run);
    if (known) known.push(row);
    else turns.set(row.run, [row]);
  }
  /** @type {Map<string, any[]>} */ const nodes = new Map(), actors = new Map();
  for (const [table, into] of /** @type {[any, Map<string, any[]>][]} */ ([[state.nodes, nodes], [state.actors, actors]])) {
    for (const [key, row] of Object.entries(table)) {
      const run = key.slice(0, key.length - row.name.length - 1);
      const known = into.get(run);
      if (known) known.push(row);
      else into.set(run, [row]);
    }
  }
  /** @type {Row[]} */ const found = [];
  const add = (/** @type {Partial<Row>} */ row, /** @type {() => void} */ inner = () => undefined) => {
    const whole = /** @type {Row} */ ({ detail: "", turn: "", state: "", from: null, to: null, cost: 0, below: 0, shut: false, isSet: false, ...row });
    const at = found.push(whole);
    inner();
    whole.below = found.length - at;
  };
  const addRun = (/** @type {string} */ id, /** @type {number} */ depth) => {
    const run = state.runs[id];
    if (!run) return;
    const over = endOf(state, run);
    add({ key: id, depth, label: run.topology || id, state: run.state, detail: run.reason || (run.state === "running" ? `${run.done} of ${run.turns} turns done` : ""), from: run.started, to: over, cost: run.cost }, () => {
      const own = turns.get(id) ?? [];
      if (actors.has(id)) return addActors(id, "", depth + 1, own, over);
      /** @type {Map<string, any[]>} */ const gathered = new Map();
      for (const row of own) {
        const known = gathered.get(row.set || row.id);
        if (known) known.push(row);
        else gathered.set(row.set || row.id, [row]);
      }
      for (const [id, several] of gathered) several[0].set ? addSet(id, several, depth + 1, over) : addTurn(several[0], depth + 1, over);
      if (run.state === "running" || run.state === "waiting") {
        for (const node of nodes.get(id) ?? []) if (node.state === "pending" && !node.starts) add({ key: `${id}/${node.name}?`, depth: depth + 1, label: node.name, state: "pending" });
      }
    });
  };
  const addSet = (/** @type {string} */ set, /** @type {any[]} */ own, /** @type {number} */ depth, /** @type {number|null} */ over) => {
    const open = own.find((one) => !one.finished), row = state.nodes[`${own[0].run}/${own[0].node}`];
    add({ key: `${own[0].run}/${set}`, depth, label: set, isSet: true, state: open?.state ?? row?.state ?? "finished", detail: countsOf(own), turn: addressOf(root, own[0].run, set), shut: own.length > FEW, from: own[0].started,
      to: open ? over : own.reduce((last, one) => Math.max(last, one.finished), 0), cost: own.reduce((sum, one) => sum + one.cost, 0) }, () => {
      for (const one of own) addTurn(one, depth + 1, over);
    });
  };
  const addTurn = (/** @type {any} */ row, /** @type {number} */ depth, /** @type {number|null} */ over) => {
    const address = addressOf(root, row.run, row.id);
    const open = row.waits.find((/** @type {any} */ one) => one.end === null);
    const detail = row.event ? `${row.event}${row.detail ? ` · ${row.detail}` : ""}` : row.state === "failed" ? row.reason : open ? `waits for ${open.why === "retry" ? "its next attempt" : `a ${open.why}`}` : row.detail;
    add({ key: `${row.run}/${row.id}`, depth, label: row.item_name ? `${row.id} ${row.item_name}` : row.id, state: row.state, detail, turn: address, from: row.started, to: row.finished ?? over, cost: row.cost }, () => {
      const last = row.attempts[row.attempts.length - 1];
      for (const one of row.attempts) {
        if (one !== last && (one.reason || one.kind)) add({ key: `${row.run}/${row.id}.${one.n}`, depth: depth + 1, label: `attempt ${one.n}`, state: one.state, detail: one.reason || one.kind, from: one.started, to: one.finished ?? over });
      }
      for (const child of row.children) addRun(child, depth + 1);
    });
  };
  const addActors = (/** @type {string} */ id, /** @type {string} */ above, /** @type {number} */ depth, /** @type {any[]} */ own, /** @type {number|null} */ over) => {
    for (const one of actors.get(id) ?? []) {
      if (one.above !== above) continue;
      const words = [one.kind === "agent" ? one.type : one.kind, one.process && `in ${one.process}`, one.restarts && `restarted ${one.restarts}×`, one.reason];
      add({ key: `${id}/${one.name}`, depth, label: one.name, state: one.state, detail: words.filter(Boolean).join(" · "), from: one.started, to: one.finished ?? over }, () => {
        for (const row of own) if (row.agent === one.name) addTurn(row, depth + 1, over);
        addActors(id, one.name, depth + 1, own, over);
      });
    }
    if (!above) for (const row of own) if (!(actors.get(id) ?? []).some((/** @type {any} */ one) => one.name === row.agent)) addTurn(row, depth, over);
  };
  addRun(root, 0);
  return found;
}

/**
 * The rows that are shown: not those below a closed one; with a text, those that have it and those above them.
 * @param {Row[]} all @param {Record<string, boolean>} closed @param {string} find
 */
function shownOf(all, closed, find) {
  if (!find) {
    const shown = [];
    for (let n = 0; n < all.length; n++) {
      shown.push(all[n]);
      if (closed[all[n].key]) n += all[n].below;
    }
    return shown;
  }
  const fits = all.map((row) => `${row.label} ${row.state} ${row.detail}`.toLowerCase().includes(find));
  /** @type {boolean[]} */ const kept = new Array(all.length).fill(false);
  /** @type {number[]} */ const above = [];
  for (let n = 0; n < all.length; n++) {
    while (above.length && all[above[above.length - 1]].depth >= all[n].depth) above.pop();
    if (fits[n]) for (const at of [...above, n]) kept[at] = true;
    above.push(n);
  }
  return all.filter((_, n) => kept[n]);
}
