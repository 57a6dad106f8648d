// A supervised system: its tree of supervisors, with restarts, crashes and messages that were not handled.
import { html } from "page/base.js";
import { endOf, Lasted, State, Text } from "page/parts.js";
import { count, visible } from "page/words.js";
import { addressOf } from "page/views/addresses.js";

/** @param {{state: any, version: number, turn: string, select: (turn: string) => void}} given */
export function System({ state, turn, select }) {
  const root = state.here.run.run;
  const actors = Object.entries(state.actors).filter(([key, one]) => key === `${root}/${one.name}`).map(([, one]) => one);
  const boxes = state.teams[""]?.boxes ?? [];
  const begun = new Set(actors.map((one) => one.name));
  /** @type {Map<string, any>} */ const last = new Map();
  for (const row of Object.values(state.turns)) if (row.run === root) last.set(row.agent, row);
  /** @type {any[]} */ const rows = [];
  const add = (/** @type {string} */ above, /** @type {number} */ depth) => {
    for (const one of actors) {
      if (one.above !== above || (one.name === above && depth)) continue;
      rows.push({ ...one, depth });
      add(one.name, depth + 1);
    }
  };
  add("", 0);
  for (const box of boxes) if (!begun.has(box.name) && ["supervisor", "agent"].includes(box.kind)) rows.push({ name: box.name, kind: box.kind, depth: 1, state: "pending", type: box.note, process: "", restarts: 0, crashes: 0, letters: {}, reason: "", started: null, finished: null });
  const end = endOf(state, state.runs[root]);
  const sum = (/** @type {(one: any) => number} */ of) => rows.reduce((all, one) => all + of(one), 0);
  const lost = sum((one) => letters(one));
  return html`<div class="panel system"><p role="status">${end !== null && state.runs[root].finished ? "The system has stopped" : `${count(rows.filter((one) => one.state === "running").length, "actor is", "actors are")} running`}; ${
      count(sum((one) => one.restarts), "restart")}, ${count(sum((one) => one.crashes), "crash", "crashes")}, ${count(lost, "message")} not handled.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Actors"><table><thead><tr><th scope="col">actor</th><th scope="col">state</th><th scope="col" class="number">for</th><th scope="col" class="number">restarts</th><th scope="col" class="number">crashes</th><th scope="col" class="number">not handled</th><th scope="col">process</th><th scope="col">last</th></tr></thead>
      <tbody>${rows.map((one) => html`<${Actor} key=${one.name} one=${one} work=${last.get(one.name)} end=${end} root=${root} turn=${turn} select=${select} />`)}</tbody></table></div></div>`;
}

/** @param {any} one */
const letters = (one) => Object.values(one.letters).reduce((/** @type {number} */ all, n) => all + Number(n), 0);

/** @param {{one: any, work: any, end: number|null, root: string, turn: string, select: (turn: string) => void}} given */
function Actor({ one, work, end, root, turn, select }) {
  const address = work ? addressOf(root, work.run, work.id) : "";
  const why = Object.entries(one.letters).map(([reason, n]) => `${n} × ${reason}`).join("\n");
  return html`<tr class=${address && address === turn ? "chosen" : ""} data-actor=${one.name}>
    <th scope="row" style=${{ paddingLeft: `${8 + one.depth * 18}px` }}><${Text} text=${one.name} /> <span class="quiet"><${Text} text=${one.kind === "agent" ? one.type : one.kind} /></span></th>
    <td><${State} state=${one.state} /></td><td class="number">${!one.started ? "–" : html`<${Lasted} from=${one.started} to=${one.finished ?? end} />`}</td>
    <td class="number ${one.restarts ? "wait" : ""}">${one.restarts}</td><td class="number ${one.crashes ? "fail" : ""}">${one.crashes}</td>
    <td class="number ${why ? "wait" : ""}" title=${visible(why)}>${letters(one)}</td><td class="quiet"><${Text} text=${one.process || "own"} /></td>
    <td class="last">${one.reason ? html`<span class="quiet"><${Text} text=${one.reason} /></span> ` : null}${address && html`<button class="small" data-row data-turn=${address} onClick=${() => select(address)} aria-pressed=${address === turn}><${Text} text=${address} /></button>`}</td></tr>`;
}
