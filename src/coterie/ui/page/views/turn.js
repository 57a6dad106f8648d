// One turn: why it ran, what it was asked, what it prints and does, what came of it.
import { html, useEffect, useRef } from "../base.js";
import { Lasted, Problem, State, Text } from "../parts.js";
import { useFetched, useTopic } from "../store.js";
import { money, visible } from "../words.js";

/** The id of the run, and of the turn in it, of the address of a turn in the root run. @param {string} root @param {string} address */
export function located(root, address) {
  const at = address.lastIndexOf("/");
  return at < 0 ? { run: root, id: address } : { run: `${root}/${address.slice(0, at)}`, id: address.slice(at + 1) };
}

/** @param {{state: any, version: number, runKey: string, turn: string, select: (turn: string) => void}} given */
export function Turn({ state, runKey, turn, select }) {
  const { run, id } = located(state.here.run.run, turn);
  const row = state.turns[`${run}/${id}`];
  const query = `turn=${encodeURIComponent(turn)}`;
  const detail = useFetched(row ? `/api/runs/${encodeURIComponent(runKey)}/turn?${query}` : "", row && `${row.state} ${row.attempts.length} ${row.asked}`);
  if (!row) return html`<aside class="panel" aria-label="Turn"><${Problem} text=${`there is no turn ${turn}`} /></aside>`;
  const value = detail.value;
  return html`<aside class="panel turn" aria-label=${`Turn ${visible(id)}`}>
    <div class="actions"><h2><${Text} text=${id} /></h2><${State} state=${row.state} />
      <span class="quiet"><${Lasted} from=${row.started} to=${row.finished} /> · ${money(row.cost)}</span>
      <button class="small push" onClick=${() => select("")} aria-label="Close the turn">close</button></div>
    ${value?.causes.length > 0 && html`<p class="quiet why">Runs because ${value.causes.slice(0, 3).map((/** @type {any} */ one, /** @type {number} */ n) => html`<span key=${one.seq}>${n ? ", because " : ""}<${Text} text=${one.text} /></span>`)}.</p>`}
    <h3>Output</h3><${Output} runKey=${runKey} query=${query} />
    ${value && html`<h3>Prompt</h3><pre class="text"><${Text} text=${value.prompt} /></pre>`}
    ${detail.problem && html`<${Problem} text=${detail.problem} />`}</aside>`;
}

/** What the turn prints, as it comes. @param {{runKey: string, query: string}} given */
function Output({ runKey, query }) {
  const { state, problem, version } = useTopic(`output/${encodeURIComponent(runKey)}?${query}`);
  const place = useRef(/** @type {any} */ (null));
  const atEnd = useRef(true);
  useEffect(() => {
    if (place.current && atEnd.current) place.current.scrollTop = place.current.scrollHeight;
  }, [version]);
  if (!state?.events) return problem ? html`<${Problem} text=${problem} />` : html`<p class="quiet">…</p>`;
  const texts = state.events.filter((/** @type {any} */ one) => one.event.kind === "text");
  if (!texts.length) return html`<p class="quiet">It has printed nothing.</p>`;
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current;
    atEnd.current = scrollHeight - scrollTop - clientHeight < 30;
  };
  return html`<pre class="text output" ref=${place} onScroll=${scrolled} tabindex="0" aria-label="Output" data-output>${texts.map((/** @type {any} */ one, /** @type {number} */ n) =>
    html`<span key=${n} class=${one.event.channel}>${visible(one.event.text)}</span>`)}</pre>`;
}
