// One run: its head, and its views with one selection.
import { html, useEffect } from "page/base.js";
import { go, runPath, threadPath, useAddress, withQuery } from "page/address.js";
import { ActionButton, guiding, interrupting, mayRetry, resuming, stopping } from "page/actions.js";
import { forking } from "page/forks.js";
import { Ago, announce, Command, endOf, Lasted, Problem, State, Text, Unknown } from "page/parts.js";
import { about, api, useTopic } from "page/store.js";
import { count, grouped, money } from "page/words.js";
import { Attention } from "page/views/attention.js";
import { Cost } from "page/views/cost.js";
import { Failure } from "page/views/failure.js";
import { Plan } from "page/views/plan.js";
import { Records } from "page/views/records.js";
import { Timeline } from "page/views/timeline.js";
import { Tree } from "page/views/tree.js";
import { Turn } from "page/views/turn.js";

/** The views of a run, by their part of the address. */
const VIEWS = /** @type {[string, string, any][]} */ ([
  ["plan", "Plan", Plan], ["timeline", "Timeline", Timeline], ["tree", "Tree", Tree], ["records", "Records", Records], ["cost", "Cost", Cost],
]);

const ENDS = ["completed", "failed", "cancelled"];
const NARROW = 600; // pixels: on a phone a run begins with what it asks, and its tree

/** @param {{runKey: string, view: string}} given */
export function Run({ runKey, view }) {
  const { query } = useAddress();
  const topic = useTopic(`run/${encodeURIComponent(runKey)}`);
  const state = topic.state;
  const root = state?.runs[state.here.run.run];
  useEffect(() => {
    document.title = root ? `${root.topology} · ${root.words} · Coterie` : "Coterie";
  }, [root]);
  if (!root) return topic.problem ? html`<h1 class="unseen">A run</h1><${Problem} text=${topic.problem} /><p><a class="link" href="/">Show all runs</a></p>` : html`<p class="quiet">Reading the run …</p>`;
  if (view && !VIEWS.some(([one]) => one === view)) return html`<${Unknown} />`;
  const isPhone = innerWidth < NARROW;
  const [name, , View] = VIEWS.find(([one]) => one === (view || (isPhone ? "tree" : "plan"))) ?? VIEWS[0];
  const turn = query.get("turn") ?? "";
  const select = (/** @type {string} */ address) => go(withQuery({ turn: address }), Boolean(turn));
  return html`
    ${topic.problem && html`<${Problem} text=${topic.problem} />`}
    <${Head} state=${state} root=${root} runKey=${runKey} isPhone=${isPhone} />
    <${Failure} state=${state} runKey=${runKey} turn=${turn} select=${select} />
    <nav class="tabs" aria-label="Views of the run">${VIEWS.map(([one, title]) =>
      html`<a key=${one} href=${withQuery({}, runPath(runKey, one))} aria-current=${one === name ? "page" : null}>${title}</a>`)}</nav>
    <div class=${turn ? "two" : "one"}>
      <${View} state=${state} version=${topic.version} runKey=${runKey} turn=${turn} select=${select} />
      ${turn && html`<${Turn} key=${turn} state=${state} version=${topic.version} runKey=${runKey} turn=${turn} select=${select} />`}
    </div>`;
}

/** The requests of a run that a person can answer now; each has its own command. @param {any} state @returns {any[]} */
function openIn(state) {
  const { owned, answered = [] } = state.here.run;
  return Object.values(state.attention).filter((/** @type {any} */ one) => (owned || !["permission", "stall"].includes(one.kind)) && !answered.includes(one.id));
}

/** What needs a person in this run. @param {{state: any, runKey: string, root: any}} given */
function Asked({ state, runKey, root }) {
  const { owned } = state.here.run, open = openIn(state);
  if (!open.length) return null;
  return html`<section class="asks" aria-label="Needs you">${open.map((/** @type {any} */ one) =>
    html`<${Attention} key=${one.run + one.id + one.since} one=${{ ...one, key: runKey, team: root.topology, driven: owned }} inRun=${true} />`)}</section>`;
}

/** Download the run as one page that opens without a server. @param {string} key */
async function save(key) {
  try {
    const found = await api(`/api/runs/${encodeURIComponent(key)}/html`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([found.html], { type: "text/html" }));
    link.download = `${key}.html`;
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) {
    announce(`not saved: ${/** @type {Error} */ (error).message}`, "alarm");
  }
}

/** @param {{state: any, root: any, runKey: string}} given */
function Actions({ state, root, runKey }) {
  const given = { runKey, epoch: root.epoch };
  const { owned } = state.here.run;
  const isOver = ENDS.includes(root.state);
  return html`<span class="actions push">
    ${owned && html`<${ActionButton} ...${given} label="Guide…" plan=${guiding("")} /><${ActionButton} ...${given} label="Interrupt…" plan=${interrupting("")} />
      <${ActionButton} ...${given} label="Stop…" hotkey="S" plan=${stopping()} />`}
    ${!owned && !isOver && html`<${ActionButton} ...${given} label="Resume…" hotkey="S" plan=${resuming(false, root)} />`}
    ${!owned && mayRetry(root) && html`<${ActionButton} ...${given} label="Retry…" hotkey="S" plan=${resuming(true, root)} />`}
    <${ActionButton} ...${given} label="Fork…" plan=${forking({})} />
    ${!about.is_file && html`<a class="button" href=${`/compare?a=${encodeURIComponent(runKey)}`}>Compare…</a><button onClick=${() => save(runKey)}>Save as a file</button>`}</span>`;
}

/** `2 of at most 14 turns done, 1 open, 1 failed, 1 not begun`, as `coterie inspect RUN plan` says it. @param {any} root @param {number|null} [most] */
export function progress(root, most) {
  const ended = root.done - root.failed, bound = root.max_turns ?? most;
  const rest = /** @type {[number, string][]} */ ([[root.turns - root.done, "open"], [root.failed, "failed"], [root.left, "not begun"]]);
  return [`${bound ? `${grouped(ended)} of at most ${count(bound, "turn")}` : count(ended, "turn")} done`, ...rest.filter(([n]) => n).map(([n, what]) => `${grouped(n)} ${what}`)].join(", ");
}

/** @param {{state: any, root: any, runKey: string, isPhone: boolean}} given */
function Head({ state, root, runKey, isPhone }) {
  const { owned } = state.here.run;
  const { ending, heard } = state.here.run;
  const isOver = ENDS.includes(root.state);
  const working = Object.values(state.turns).filter((/** @type {any} */ one) => one.state === "running" && !one.children.length);
  const actions = html`<${Actions} state=${state} root=${root} runKey=${runKey} />`, asked = html`<${Asked} state=${state} runKey=${runKey} root=${root} />`;
  const asksFirst = isPhone && openIn(state).length > 0; // its buttons belong on the first screen
  return html`<div class="actions"><h1><${Text} text=${root.topology} /></h1>${root.state === "completed" && ending ? html`<${State} state="failed" words="ended early" />` : html`<${State} state=${root.state} words=${root.state === "failed" ? "" : root.words} />`}
      <span class="quiet cut prompt"><${Text} text=${root.prompt} /></span>${!asksFirst && actions}</div>
    ${ending && html`<div class="ending"><span class="state ${ending.look}"><${Text} text=${ending.text} /></span> ${!openIn(state).length && html`<span class="quiet">${ending.how}:</span> <${Command} line=${`${ending.command}${state.here.run.option}`} />`}</div>`}
    ${asksFirst && html`${asked}<div class="actions">${actions}</div>`}
    <div class="facts">
      <div><span>duration</span><b><${Lasted} from=${root.started} to=${endOf(state, root)} /></b></div>
      <div><span>turns</span><b>${progress(root, state.here.run.most)}</b></div>
      <div><span>cost</span><b>${money(root.cost)}${root.max_cost ? ` of ${money(root.max_cost)}` : ""}</b></div>
      ${root.most_iterations ? html`<div><span>iteration</span><b>${root.iteration} of at most ${root.most_iterations}</b></div>` : null}
      <div><span>${isOver ? "ended" : root.finished ? "stopped" : "now"}</span><b>${root.finished ? html`<${Ago} at=${root.finished} />` : owned && working.length ? html`${working.slice(0, 3).map((/** @type {any} */ one) => html`<span class="quietly" key=${one.run + one.id}><${Text} text=${one.id} /> <${Lasted} from=${one.started} /></span>`)}${working.length > 3 && html`<span class="quietly">${`and ${grouped(working.length - 3)} more`}</span>`}` : null}
        ${root.finished ? null : html`<span class=${owned && working.length ? "quiet" : ""}>last sign of life <${Ago} at=${Math.max(root.at, heard ?? 0)} /></span>`}</b></div>
      ${root.thread && html`<div><span>thread</span><b>${about.is_file ? html`<${Text} text=${root.thread} />` : html`<a class="link" href=${threadPath(root.thread)}><${Text} text=${root.thread} /></a>`}</b></div>`}
      <div><span>run</span><code><${Text} text=${state.here.run.run} /></code></div></div>
    ${root.warnings.map((/** @type {string} */ one) => html`<p class="quiet" key=${one}><${Text} text=${one} /></p>`)}
    ${!asksFirst && asked}`;
}
