// One turn: why it ran, what it was asked, what it prints and does, what came of it, what it changed.
import { html, useEffect, useRef, useState } from "page/base.js";
import { withQuery } from "page/address.js";
import { ActionButton, guiding, interrupting, mayRetry, resuming } from "page/actions.js";
import { forking } from "page/forks.js";
import { Command, Empty, endOf, Lasted, Problem, State, Text } from "page/parts.js";
import { useFetched, useTopic } from "page/store.js";
import { count, duration, money, visible } from "page/words.js";
import { Diff } from "page/views/diff.js";
import { isSet, SetPanel } from "page/views/set.js";

/** The id of the run, and of the turn in it, of the address of a turn in the root run. @param {string} root @param {string} address */
export function located(root, address) {
  const at = address.lastIndexOf("/");
  return at < 0 ? { run: root, id: address } : { run: `${root}/${address.slice(0, at)}`, id: address.slice(at + 1) };
}

/** The address of a turn in its root run. @param {string} run @param {string} turn */
export function addressOf(run, turn) {
  const at = run.indexOf("/");
  return at < 0 ? turn : `${run.slice(at + 1)}/${turn}`;
}

/** @param {{state: any, version: number, runKey: string, turn: string, select: (turn: string) => void}} given */
export function Turn({ state, version, runKey, turn, select }) {
  const root = state.here.run.run;
  const { run, id } = located(root, turn);
  const row = state.turns[`${run}/${id}`];
  const query = `turn=${encodeURIComponent(turn)}`;
  const { value, problem } = useFetched(row ? `/api/runs/${encodeURIComponent(runKey)}/turn?${query}` : "", row && `${row.state} ${row.attempts.length} ${row.asked}`);
  if (!row && isSet(state, run, id)) return html`<${SetPanel} state=${state} version=${version} run=${run} id=${id} select=${select} />`;
  if (!row) return html`<aside class="panel turn" aria-label="Turn"><${Problem} text=${`there is no turn ${turn} in this run`} /></aside>`;
  const epoch = state.runs[root].epoch;
  const isLive = state.here.run.owned && !row.finished;
  return html`<aside class="panel turn" aria-label=${`Turn ${visible(id)}`}>
    <div class="actions"><h2><${Text} text=${row.item_name ? `${id} ${row.item_name}` : id} /></h2><${State} state=${row.state} />
      <span class="quiet">${row.attempts.length > 1 && html`attempt ${row.attempts.length} · `}<${Lasted} from=${row.started} to=${row.finished ?? endOf(state, state.runs[run])} /> · ${money(row.cost)}</span>
      <button class="small push" data-close onClick=${() => select("")}>close <kbd>Esc</kbd></button></div>
    ${value && html`<${Why} value=${value} run=${run} />`}
    ${row.reason && html`<p class="problem"><span class="state fail"><${Text} text=${[row.kind, row.reason].filter(Boolean).join(": ")} /></span></p>`}
    ${row.children.length > 0 && html`<p>A team answers for it: ${row.children.map((/** @type {string} */ child) => html`<a key=${child} href=${`?turn=${encodeURIComponent(firstTurn(state, child))}`}><${Text} text=${child.slice(root.length + 1)} /></a> `)}</p>`}
    <h3>Output</h3><${Output} runKey=${runKey} query=${query} isLive=${isLive} value=${value} />
    ${value?.tools.length > 0 && html`<${Tools} tools=${value.tools} started=${row.started} />`}
    ${value && html`<${Steps} attempts=${value.attempts} /><${Outputs} value=${value} /><${Gates} gates=${value.gates} />
      ${value.attempts.length > 1 && html`<${Attempts} attempts=${value.attempts} />`}
      <${Prompt} value=${value} /><${Files} runKey=${runKey} query=${query} isOver=${Boolean(row.finished)} />
      <h3>Usage</h3><p>${count(row.input_tokens, "token")} in · ${count(row.output_tokens, "token")} out · ${money(row.cost)}${value.session && html` <span class="quiet">session <code><${Text} text=${value.session} /></code></span>`}</p>`}
    ${problem && html`<${Problem} text=${problem} />`}
    <div class="actions foot">
      ${isLive && html`<${ActionButton} label="Guide…" hotkey="G" runKey=${runKey} epoch=${epoch} plan=${guiding(turn)} />
        <${ActionButton} label="Interrupt…" hotkey="I" runKey=${runKey} epoch=${epoch} plan=${interrupting(turn)} />`}
      ${row.state === "failed" && mayRetry(state.runs[root]) && html`<${ActionButton} label="Retry…" hotkey="R" runKey=${runKey} epoch=${epoch} plan=${resuming(true, state.runs[root], turn)} />`}
      ${run === root && html`<${ActionButton} label="Fork from here…" hotkey="F" runKey=${runKey} epoch=${epoch} plan=${forking({ turn, names: [row.agent, row.node] })} />`}</div>
  </aside>`;
}

/** @param {any} state @param {string} run */
function firstTurn(state, run) {
  const found = /** @type {any} */ (Object.values(state.turns).find((/** @type {any} */ one) => one.run === run));
  return found ? addressOf(run, found.id) : "";
}

/** Why it ran: the chain of causes, each a link to its turn. @param {{value: any, run: string}} given */
function Why({ value, run }) {
  const [all, setAll] = useState(false);
  const others = value.causes.filter((/** @type {any} */ one) => one.turn !== value.turn);
  const causes = others.slice(0, all ? undefined : 3);
  if (!causes.length) return html`<p class="quiet why">The run began with it.</p>`;
  return html`<p class="quiet why">Runs because ${causes.map((/** @type {any} */ one, /** @type {number} */ n) => html`<span key=${one.seq}>${n ? ", because " : ""}${
    one.turn && one.turn !== value.turn ? html`<a class="link" href=${withQuery({ turn: addressOf(run, one.turn) })}><${Text} text=${one.text} /></a>` : html`<${Text} text=${one.text} />`}</span>`)}${
    others.length > causes.length ? html`, <button class="link" onClick=${() => setAll(true)}>and ${count(others.length - causes.length, "cause")} before</button>` : "."}</p>`;
}

/** What the turn prints, as it comes. @param {{runKey: string, query: string, isLive: boolean, value: any}} given */
function Output({ runKey, query, isLive, value }) {
  const { state, problem, version } = useTopic(`output/${encodeURIComponent(runKey)}?${query}`);
  const place = useRef(/** @type {any} */ (null));
  const atEnd = useRef(true);
  const shown = useRef(/** @type {any} */ (null));
  const isSelected = useSelected(place);
  useEffect(() => {
    if (place.current && atEnd.current) place.current.scrollTop = place.current.scrollHeight;
  }, [version]);
  if (!state?.events) return problem ? html`<${Problem} text=${problem} />` : html`<p class="quiet">…</p>`;
  const last = state.events.length ? state.events[state.events.length - 1].attempt : 1;
  const texts = state.events.filter((/** @type {any} */ one) => one.event.kind === "text" && one.attempt === last);
  const kept = value?.text || value?.attempts.at(-1)?.text || "";
  if (!texts.length) {
    if (kept) return html`<pre class="text output" tabindex="0" aria-label="Output" data-output><${Text} text=${kept} /></pre>`;
    return html`<p class="quiet">${isLive ? "It has printed nothing yet." : "It printed nothing."}</p>`;
  }
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current;
    atEnd.current = scrollHeight - scrollTop - clientHeight < 30;
  };
  if (isSelected && shown.current) return shown.current; // another text would undo what is selected
  return shown.current = html`${state.cut && html`<p class="quiet">The beginning is left out; <code>coterie inspect … output</code> has it.</p>`}
    <pre class="text output" ref=${place} onScroll=${scrolled} tabindex="0" aria-label="Output" data-output>${texts.map((/** @type {any} */ one, /** @type {number} */ n) =>
      html`<span key=${n} class=${one.event.channel}>${visible(one.event.text)}</span>`)}</pre>`;
}

/** Whether a part of the text in an element is selected. @param {{current: any}} place */
function useSelected(place) {
  const [is, set] = useState(false);
  useEffect(() => {
    const changed = () => {
      const found = document.getSelection();
      set(Boolean(found && !found.isCollapsed && place.current?.contains(found.anchorNode)));
    };
    document.addEventListener("selectionchange", changed);
    return () => document.removeEventListener("selectionchange", changed);
  }, []);
  return is;
}

/** @param {{tools: any[], started: number}} given */
function Tools({ tools }) {
  return html`<h3>Tools · ${tools.length}</h3><div class="list">${tools.map((one, n) => html`<details key=${one.id || n}>
    <summary><span class="state ${one.state === "failed" ? "fail" : one.state === "finished" ? "done" : "work"}"><${Text} text=${one.name} /></span> <code class="cut"><${Text} text=${one.detail} /></code></summary>
    <pre class="text"><${Text} text=${one.result || "no result was kept"} /></pre></details>`)}</div>`;
}

/** The requests that a model has answered. @param {{attempts: any[]}} given */
function Steps({ attempts }) {
  const steps = attempts.flatMap((one) => one.steps ?? []);
  if (!steps.length) return null;
  return html`<h3>Requests · ${steps.length}</h3><table><tbody>${steps.map(({ n, calls = [], usage = {} }) => html`<tr key=${n}><th scope="row">${n}</th>
    <td>${calls.length ? html`calls <${Text} text=${calls.join(", ")} />` : "answers"}</td>
    <td class="quiet">${count(usage.input_tokens ?? 0, "token")} in · ${count(usage.output_tokens ?? 0, "token")} out · ${money(usage.cost ?? 0)}</td></tr>`)}</tbody></table>`;
}

/** The outputs, and the conditions that read them. @param {{value: any}} given */
function Outputs({ value }) {
  const found = Object.entries(value.outputs ?? {});
  if (!found.length && !value.read_by.length) return null;
  return html`<h3>Outputs</h3><table><tbody>${found.map(([name, one]) => html`<tr key=${name}><th scope="row"><${Text} text=${name} /></th>
    <td><${Text} text=${typeof one === "string" ? one : JSON.stringify(one)} /></td></tr>`)}
    ${value.read_by.map((/** @type {any} */ one, /** @type {number} */ n) => html`<tr key=${n}><td></td><td class="quiet"><${Text} text=${`${one.arrow}: ${one.condition}`} />
      ${one.held === null ? " is read" : one.held ? html` <span class="state done">held</span>` : html` <span class="state next">did not hold</span>`}</td></tr>`)}</tbody></table>`;
}

/** @param {{gates: any[]}} given */
function Gates({ gates }) {
  if (!gates.length) return null;
  return html`<h3>Gates</h3><div class="list">${gates.map((one) => html`<details key=${one.seq} open=${!one.passed}>
    <summary><span class="state ${one.passed ? "done" : "fail"}">${one.passed ? "passed" : "failed"}</span> <code class="cut"><${Text} text=${(one.argv ?? []).join(" ")} /></code></summary>
    <pre class="text"><${Text} text=${one.output || one.reason || "it printed nothing"} /></pre></details>`)}</div>`;
}

/** Attempts side by side. @param {{attempts: any[]}} given */
function Attempts({ attempts }) {
  return html`<h3>Attempts</h3><div class="beside">${attempts.map((one) => html`<div key=${one.n} class="attempt"><div class="actions"><b>${one.n}</b><${State} state=${one.state} />
    <span class="quiet">${one.finished ? duration(one.finished - one.started) : ""} · ${money(one.usage.cost)}</span></div>
    ${one.reason && html`<p class="quiet"><${Text} text=${[one.kind, one.reason].filter(Boolean).join(": ")} /></p>`}
    ${(one.text || one.log) && html`<pre class="text"><${Text} text=${one.text} />${one.log && html`<span class="log"><${Text} text=${one.log} /></span>`}</pre>`}</div>`)}</div>`;
}

const ORIGINS = /** @type {Record<string, string>} */ ({
  prompt: "its own prompt", role: "its role", task: "the task", input: "the input", result: "what another turn said", file: "a file",
  outputs: "how to answer", thread: "earlier in the conversation", guidance: "guidance", attempt: "an earlier attempt", history: "the conversation", engine: "the coordination",
});

/** The prompt with the origin of each part. @param {{value: any}} given */
function Prompt({ value }) {
  if (!value.prompt) return html`<h3>Prompt</h3><p class="quiet">It got no prompt.</p>`;
  const parts = value.parts.length ? value.parts : [{ text: value.prompt, origin: "", name: "" }];
  return html`<h3>Prompt ${!value.prompt_is_exact && html`<span class="state wait">made again from today's files; it may differ from what was sent</span>`}</h3>
    <div class="text prompt-parts" tabindex="0" role="group" aria-label="Prompt">${parts.map((/** @type {any} */ one, /** @type {number} */ n) => html`<div key=${n} class="part">
      ${one.origin && html`<span class="origin">${ORIGINS[one.origin] ?? one.origin}${one.name && html` · <${Text} text=${one.name} />`}</span>`}<pre><${Text} text=${one.text} /></pre></div>`)}</div>`;
}

/** The files that it changed. @param {{runKey: string, query: string, isOver: boolean}} given */
function Files({ runKey, query, isOver }) {
  const { value } = useFetched(isOver ? `/api/runs/${encodeURIComponent(runKey)}/files?${query}` : "");
  if (!value) return null;
  if (value.problem) return html`<h3>Files</h3><p class="quiet"><${Text} text=${value.problem} /></p>`;
  if (!value.files.length) return html`<h3>Files</h3><${Empty}>It changed no file.<//>`;
  return html`<h3>Files · ${value.files.length}</h3>
    ${value.notes.map((/** @type {string} */ one) => html`<p key=${one} class="quiet"><${Text} text=${one} />.</p>`)}
    <${Diff} text=${value.diff} files=${value.files} isCut=${value.is_cut} />${value.take && html`<${Command} line=${value.take} />`}`;
}
