// One run: its head, and its views with one selection.
import { html, useEffect } from "../base.js";
import { go, runPath, useAddress, withQuery } from "../address.js";
import { ActionButton, forking, guiding, interrupting, mayRetry, resuming, stopping } from "../actions.js";
import { Ago, announce, Lasted, Problem, State, Text } from "../parts.js";
import { about, api, useTopic } from "../store.js";
import { money } from "../words.js";
import { Attention } from "./attention.js";
import { Cost } from "./cost.js";
import { Failure } from "./failure.js";
import { Plan } from "./plan.js";
import { Records } from "./records.js";
import { Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { Turn } from "./turn.js";

/** The views of a run, by their part of the address. */
const VIEWS = /** @type {[string, string, any][]} */ ([
  ["plan", "Plan", Plan], ["timeline", "Timeline", Timeline], ["tree", "Tree", Tree], ["records", "Records", Records], ["cost", "Cost", Cost],
]);

/** @param {{runKey: string, view: string}} given */
export function Run({ runKey, view }) {
  const { query } = useAddress();
  const topic = useTopic(`run/${encodeURIComponent(runKey)}`);
  const state = topic.state;
  const root = state?.runs[state.here.run.run];
  useEffect(() => {
    document.title = root ? `${root.topology} · ${root.words} · Coterie` : "Coterie";
  }, [root]);
  if (!root) return topic.problem ? html`<${Problem} text=${topic.problem} />` : html`<p class="quiet">Reading the run …</p>`;
  const [name, , View] = VIEWS.find(([one]) => one === view) ?? VIEWS[0];
  const turn = query.get("turn") ?? "";
  const select = (/** @type {string} */ address) => go(withQuery({ turn: address }), Boolean(turn));
  return html`
    ${topic.problem && html`<${Problem} text=${topic.problem} />`}
    <${Head} state=${state} root=${root} runKey=${runKey} />
    <${Asked} state=${state} runKey=${runKey} root=${root} />
    <${Failure} state=${state} runKey=${runKey} turn=${turn} select=${select} />
    <nav class="tabs" aria-label="Views of the run">${VIEWS.map(([one, title]) =>
      html`<a key=${one} href=${withQuery({}, runPath(runKey, one))} aria-current=${one === name ? "page" : null}>${title}</a>`)}</nav>
    <div class=${turn ? "two" : "one"}>
      <${View} state=${state} version=${topic.version} runKey=${runKey} turn=${turn} select=${select} />
      ${turn && html`<${Turn} key=${turn} state=${state} version=${topic.version} runKey=${runKey} turn=${turn} select=${select} />`}
    </div>`;
}

/** What needs a person in this run. @param {{state: any, runKey: string, root: any}} given */
function Asked({ state, runKey, root }) {
  const { owned } = state.here.run;
  const open = Object.values(state.attention).filter((/** @type {any} */ one) => owned || !["permission", "stall"].includes(one.kind));
  if (!open.length) return null;
  return html`<section class="asks" aria-label="Needs you">${open.map((/** @type {any} */ one) =>
    html`<${Attention} key=${one.run + one.id + one.since} one=${{ ...one, key: runKey, team: root.topology }} inRun=${true} />`)}</section>`;
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
    announce(/** @type {Error} */ (error).message);
  }
}

/** @param {{state: any, root: any, runKey: string}} given */
function Actions({ state, root, runKey }) {
  const given = { runKey, epoch: root.epoch };
  const { owned } = state.here.run;
  const isOver = ["completed", "failed", "cancelled"].includes(root.state);
  const agents = [...new Set(Object.values(state.turns).filter((/** @type {any} */ one) => one.run === root.id).map((/** @type {any} */ one) => one.agent))];
  return html`<span class="actions push">
    ${owned && html`<${ActionButton} ...${given} label="Guide…" plan=${guiding("")} /><${ActionButton} ...${given} label="Interrupt…" plan=${interrupting("")} />
      <${ActionButton} ...${given} label="Stop…" hotkey="S" plan=${stopping()} />`}
    ${!owned && !isOver && html`<${ActionButton} ...${given} label="Resume…" hotkey="S" plan=${resuming(false, root)} />`}
    ${!owned && mayRetry(root) && html`<${ActionButton} ...${given} label="Retry…" hotkey="S" plan=${resuming(true, root)} />`}
    <${ActionButton} ...${given} label="Fork…" plan=${forking({ agents })} />
    ${!about.is_file && html`<a class="button" href=${`/compare?a=${encodeURIComponent(runKey)}`}>Compare…</a><button onClick=${() => save(runKey)}>Save as a file</button>`}</span>`;
}

/** @param {{state: any, root: any, runKey: string}} given */
function Head({ state, root, runKey }) {
  const { owned } = state.here.run;
  const shown = root.state === "running" && !owned ? "cut off" : root.state;
  const last = root.halts[root.halts.length - 1];
  const working = Object.values(state.turns).filter((/** @type {any} */ one) => one.state === "running" && !one.children.length);
  return html`<div class="actions"><h1><${Text} text=${root.topology} /></h1><${State} state=${shown} words=${shown === root.state && shown !== "failed" ? root.words : ""} />
      <span class="quiet cut prompt"><${Text} text=${root.prompt} /></span><${Actions} state=${state} root=${root} runKey=${runKey} /></div>
    ${shown === "cut off" && html`<p class="first">The process that drove it is gone. Resume goes on from what it has written.</p>`}
    <div class="facts">
      <div><span>duration</span><b><${Lasted} from=${root.started} to=${root.finished ?? (owned ? null : last?.at ?? root.at)} /></b></div>
      <div><span>turns</span><b>${root.done} of ${root.turns} done${root.max_turns ? `, at most ${root.max_turns}` : ""}</b></div>
      <div><span>cost</span><b>${money(root.cost)}${root.max_cost ? ` of ${money(root.max_cost)}` : ""}</b></div>
      ${root.most_iterations ? html`<div><span>iteration</span><b>${root.iteration} of at most ${root.most_iterations}</b></div>` : null}
      <div><span>${root.finished ? "ended" : "now"}</span><b>${root.finished ? html`<${Ago} at=${root.finished} />` : owned && working.length ? working.slice(0, 3).map((/** @type {any} */ one) => html`<span class="quietly" key=${one.run + one.id}><${Text} text=${one.id} /> <${Lasted} from=${one.started} /></span>`)
        : html`<span>last sign of life <${Ago} at=${root.at} /></span>`}</b></div>
      <div><span>run</span><code><${Text} text=${state.here.run.run} /></code></div></div>
    ${root.warnings.map((/** @type {string} */ one) => html`<p class="quiet" key=${one}><${Text} text=${one} /></p>`)}`;
}
