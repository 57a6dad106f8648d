// One set: how far it is, and its items, each of which leads to its turn.
import { html, useMemo } from "page/base.js";
import { endOf, Lasted, State, Text } from "page/parts.js";
import { grouped, visible } from "page/words.js";
import { addressOf } from "page/views/addresses.js";
import { Windowed } from "page/views/windowed.js";

/** @param {string} run @param {string} set @returns {(row: any) => boolean} */
const worksOn = (run, set) => (row) => row.set === set && row.run === run;

/** Whether a turn has begun that works on an item of it. @param {any} state @param {string} run @param {string} set */
export const isSet = (state, run, set) => Object.values(state.turns).some(worksOn(run, set));

/** The turns that work on the items of a set, in the items' order. @param {any} state @param {string} run @param {string} set @returns {any[]} */
function itemsOf(state, run, set) {
  return Object.values(state.turns).filter(worksOn(run, set)).sort((/** @type {any} */ a, /** @type {any} */ b) => a.item[0] - b.item[0]);
}

/** `180 of 200 done, 4 working, 6 failed`. @param {any[]} own the turns of the items that have begun */
export function countsOf(own) {
  const of = (/** @type {string} */ state) => own.filter((one) => one.state === state).length;
  const open = own.filter((one) => !one.finished).length;
  const rest = /** @type {[number, string][]} */ ([[open, "working"], [of("failed"), "failed"], [of("cancelled"), "cancelled"]]);
  return [`${grouped(of("finished"))} of ${grouped(own[0].item[1])} done`, ...rest.filter(([n]) => n).map(([n, word]) => `${grouped(n)} ${word}`)].join(", ");
}

/** @param {{state: any, version: number, run: string, id: string, select: (turn: string) => void}} given */
export function SetPanel({ state, version, run, id, select }) {
  const root = state.here.run.run;
  const own = useMemo(() => itemsOf(state, run, id), [version, run, id]);
  const choose = (/** @type {number} */ n) => select(addressOf(root, run, own[n].id));
  return html`<aside class="panel turn set" aria-label=${`Set ${visible(id)}`}>
    <div class="actions"><h2><${Text} text=${id} /></h2><span class="quiet" role="status">${countsOf(own)}</span>
      <button class="small push" data-close onClick=${() => select("")}>close <kbd>Esc</kbd></button></div>
    <${Windowed} count=${own.length} height=${28} label="Items" keyOf=${(/** @type {number} */ n) => own[n].id} choose=${choose}
      attributes=${(/** @type {number} */ n) => ({ "data-turn": addressOf(root, run, own[n].id) })}
      row=${(/** @type {number} */ n) => html`<${Item} row=${own[n]} over=${endOf(state, state.runs[run])} />`} /></aside>`;
}

/** @param {{row: any, over: number|null}} given `over`: when its run ended */
const Item = ({ row, over }) => html`<span class="number quiet">${grouped(row.item[0])}</span><b class="cut"><${Text} text=${row.item_name || row.id} /></b><${State} state=${row.state} />
  <span class="cut quiet"><${Text} text=${row.detail} /></span><span class="number"><${Lasted} from=${row.started} to=${row.finished ?? over} /></span>`;
