// All runs: what needs a person, what works, what ended.
import { html, useEffect, useRef } from "page/base.js";
import { go, runPath, useAddress, withQuery } from "page/address.js";
import { Ago, Bar, Empty, Lasted, Problem, State, Text } from "page/parts.js";
import { serverNow, useTopic } from "page/store.js";
import { clock, count, grouped, money, stateWords } from "page/words.js";
import { Attention } from "page/views/attention.js";

const SECTIONS = /** @type {[string, string][]} */ ([
  ["person", "Waits for you"], ["running", "Working"], ["stopped", "Stopped"], ["failed", "Failed"], ["completed", "Completed"],
]);

/** The groups whose numbers come first, each with its title and look. */
const NUMBERS = /** @type {[string, string, string][]} */ ([["person", "needs you", "wait"], ["running", "working", "work"], ["failed", "failed", "fail"]]);

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
  const group = query.get("state") ?? "";
  const asked = ["", "person"].includes(group) ? found.attention : [];
  const shownAbove = new Set(asked.map((/** @type {any} */ one) => one.key)); // no run is shown twice
  return html`
    <h1 class="unseen">Runs</h1>
    <${Filters} counts=${found.counts} now=${group} />
    ${asked.length > 0 && html`<section aria-label="Needs you"><h2>Needs you · ${asked.length}</h2>
      <div class="asks">${asked.map((/** @type {any} */ one) => html`<${Attention} key=${one.key + one.run + one.id + one.since} one=${one} />`)}</div></section>`}
    ${SECTIONS.map(([group, title]) => html`<${Section} key=${group} title=${title} total=${found.counts[group]}
      rows=${found.order.map((/** @type {string} */ key) => found.rows[key]).filter((/** @type {any} */ row) => row?.group === group && !shownAbove.has(row.key))} />`)}
    ${!found.order.length && (all || query.get("q") ? html`<${Empty}>No run fits. <a href="/">Show all runs</a><//>`
      : html`<${Empty}>Nothing has run here yet. Type <code>coterie run examples/repo-review/review.at</code>, and it appears here at once.<//>`)}
    ${found.order.length < found.of && html`<p><button onClick=${() => go(withQuery({ limit: String(found.order.length * 4) }), true)}>Show more of ${count(found.of, "run")}</button></p>`}`;
}

/** @param {{counts: Record<string, number>, now: string}} given */
function Filters({ counts, now }) {
  const all = Object.values(counts).reduce((a, b) => a + b, 0);
  const link = (/** @type {string} */ group, /** @type {any} */ content) => html`<a key=${group} href=${withQuery({ state: group === now ? "" : group, limit: "" })} aria-current=${now === group ? "true" : null}>${content}</a>`;
  return html`<nav class="numbers" aria-label="The three numbers">${NUMBERS.map(([group, title, look]) => link(group, html`<b class=${counts[group] ? look : "quiet"}>${grouped(counts[group])}</b> <span class="state ${counts[group] ? look : "next"}">${title}</span>`))}</nav>
    <nav class="filters" aria-label="Which runs">${link("", html`all <span class="quiet">${grouped(all)}</span>`)}
    ${SECTIONS.map(([group, title]) => counts[group] > 0 && !NUMBERS.some(([one]) => one === group) && link(group, html`${title.toLowerCase()} <span class="quiet">${grouped(counts[group])}</span>`))}</nav>`;
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
    : !row.turns ? null : row.group === "running" && most ? `${row.done} of ≤ ${count(most, "turn")}` : count(row.turns, "turn");
  const words = row.reason || (row.words ?? "").replace(/^\w+: /, ""), why = word === "cut off" ? "the process that drove it is gone" : [word, row.state].includes(words) ? "" : words; // the state stands beside it
  return html`<a class="row" data-row href=${runPath(row.key)}>
    <span class="state ${look}">${word}</span>
    <span class="cut"><b><${Text} text=${row.team || row.run} /></b> <span class="quiet"><${Text} text=${row.prompt} /></span></span>
    <span class="cut">${row.agents?.length ? html`<${Agents} agents=${row.agents} />` : html`<span class="quiet"><${Text} text=${why} /></span>`}</span>
    <span>${row.group === "running" && most ? html`<${Bar} part=${row.done} of=${most} />` : null}<span class="quiet">${turns ?? ""}</span></span>
    <span>${row.cost === null || row.cost === undefined ? "" : money(row.cost)}${row.max_cost ? html` <span class="quiet">of ${money(row.max_cost)}</span>` : null}</span>
    <span class="quiet">${row.group === "running" ? html`<${Lasted} from=${row.started} /> · heard <${Ago} at=${Math.max(row.at, ...(row.agents ?? []).map((/** @type {any} */ one) => one.heard))} />` : row.at ? html`<${Ago} at=${row.at} />` : clock(row.started, serverNow())}</span></a>`;
}

/** The agents at work, and since when. @param {{agents: any[]}} given */
function Agents({ agents }) {
  const [first] = agents;
  /** @type {Record<string, number>} */ const of = {};
  for (const one of agents) of[one.agent] = (of[one.agent] ?? 0) + 1;
  const all = Object.entries(of).map(([name, n]) => (n > 1 ? `${name} ×${n}` : name));
  const names = all.slice(0, 3).join(", ") + (all.length > 3 ? ` and ${all.length - 3} more` : "");
  return html`<${Text} text=${names} /> ${first.tool ? html`· <code><${Text} text=${first.tool} /></code> ` : null}<span class="quiet"><${Lasted} from=${first.since} /></span>`;
}
