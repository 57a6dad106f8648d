// All runs: what needs a person, what works, what ended.
import { html, useEffect, useRef } from "../base.js";
import { go, runPath, useAddress, withQuery } from "../address.js";
import { Ago, Bar, Empty, Lasted, Problem, State, Text } from "../parts.js";
import { useTopic } from "../store.js";
import { clock, count, money, stateWords } from "../words.js";
import { Attention } from "./attention.js";

const SECTIONS = /** @type {[string, string][]} */ ([
  ["person", "Waits for you"], ["running", "Working"], ["stopped", "Stopped"], ["failed", "Failed"], ["completed", "Completed"],
]);

export function Home() {
  const { query } = useAddress();
  const kept = ["q", "state", "limit"].filter((name) => query.get(name)).map((name) => `${name}=${encodeURIComponent(query.get(name) ?? "")}`);
  const { state, problem } = useTopic(`home?${kept.join("&")}`);
  const shown = useRef(/** @type {any} */ (null));
  if (state) shown.current = state;
  const found = shown.current;
  useEffect(() => {
    document.title = found?.attention.length ? `(${found.attention.length}) Runs · Coterie` : "Runs · Coterie";
  });
  if (!found) return problem ? html`<${Problem} text=${problem} />` : html`<p class="quiet">Looking for runs …</p>`;
  const all = Object.values(found.counts).reduce((/** @type {number} */ a, b) => a + /** @type {number} */ (b), 0);
  return html`
    <h1 class="unseen">Runs</h1>
    ${found.attention.length > 0 && html`<section aria-label="Needs you"><h2>Needs you · ${found.attention.length}</h2>
      <div class="asks">${found.attention.map((/** @type {any} */ one) => html`<${Attention} key=${one.key + one.run + one.id + one.since} one=${one} />`)}</div></section>`}
    <${Filters} counts=${found.counts} now=${query.get("state") ?? ""} />
    ${SECTIONS.map(([group, title]) => html`<${Section} key=${group} title=${title} total=${found.counts[group]}
      rows=${found.order.map((/** @type {string} */ key) => found.rows[key]).filter((/** @type {any} */ row) => row?.group === group)} />`)}
    ${!found.order.length && (all || query.get("q") ? html`<${Empty}>No run fits. <a href="/">Show all runs</a><//>`
      : html`<${Empty}>Nothing has run here yet. Type <code>coterie run examples/repo-review/review.at</code>, and it appears here at once.<//>`)}
    ${found.order.length < found.of && html`<p><button onClick=${() => go(withQuery({ limit: String(found.order.length * 4) }), true)}>Show more of ${count(found.of, "run")}</button></p>`}`;
}

/** @param {{counts: Record<string, number>, now: string}} given */
function Filters({ counts, now }) {
  const all = Object.values(counts).reduce((a, b) => a + b, 0);
  return html`<nav class="filters" aria-label="Which runs">
    <a href=${withQuery({ state: "", limit: "" })} aria-current=${now === "" ? "true" : null}>all <span class="quiet">${all}</span></a>
    ${SECTIONS.map(([group, title]) => counts[group] > 0 && html`<a key=${group} href=${withQuery({ state: group, limit: "" })}
      aria-current=${now === group ? "true" : null}>${title.toLowerCase()} <span class="quiet">${counts[group]}</span></a>`)}</nav>`;
}

/** @param {{title: string, rows: any[], total: number}} given */
function Section({ title, rows, total }) {
  if (!rows.length) return null;
  return html`<section aria-label=${title}><h2>${title} · ${total}</h2>
    <div class="rows">${rows.map((row) => html`<${Row} key=${row.key} row=${row} />`)}</div></section>`;
}

/** @param {{row: any}} given */
function Row({ row }) {
  const [look, word] = stateWords(row.group === "person" ? "person" : row.state);
  const most = row.most ?? row.max_turns ?? null;
  const turns = row.turns === null || row.turns === undefined ? null
    : row.most_iterations ? `${row.iteration} of ≤ ${row.most_iterations} iterations`
    : row.group === "running" && most ? `${row.done} of ≤ ${count(most, "turn")}` : count(row.turns, "turn");
  return html`<a class="row" data-row href=${runPath(row.key)}>
    <span class="state ${look}">${word}</span>
    <span class="cut"><b><${Text} text=${row.team || row.run} /></b> <span class="quiet"><${Text} text=${row.prompt} /></span></span>
    <span class="cut">${row.agents?.length ? html`<${Agents} agents=${row.agents} />` : html`<span class="quiet"><${Text} text=${row.reason || row.words || ""} /></span>`}</span>
    <span>${row.group === "running" && most ? html`<${Bar} part=${row.done} of=${most} />` : null}<span class="quiet">${turns ?? ""}</span></span>
    <span>${row.cost === null || row.cost === undefined ? "" : money(row.cost)}${row.max_cost ? html` <span class="quiet">of ${money(row.max_cost)}</span>` : null}</span>
    <span class="quiet">${row.group === "running" ? html`<${Lasted} from=${row.started} />` : row.at ? html`<${Ago} at=${row.at} />` : clock(row.started, Date.now() / 1000)}</span></a>`;
}

/** The agents at work, and since when. @param {{agents: any[]}} given */
function Agents({ agents }) {
  const [first] = agents;
  const names = agents.slice(0, 3).map((one) => one.agent).join(", ") + (agents.length > 3 ? ` and ${agents.length - 3} more` : "");
  return html`<${Text} text=${names} /> ${first.tool ? html`· <code><${Text} text=${first.tool} /></code> ` : null}<span class="quiet"><${Lasted} from=${first.since} /></span>`;
}
