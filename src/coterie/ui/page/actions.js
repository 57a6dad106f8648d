// Actions: each says what it will do, shows the command that does the same, and shows the verdict that the run gave.
import { html, useEffect, useRef, useState } from "./base.js";
import { go, runPath, useAddress } from "./address.js";
import { announce, Command, Problem, Text } from "./parts.js";
import { about, api } from "./store.js";

/**
 * @typedef {{name: string, label: string, type?: "text"|"area"|"number"|"check"|"choice", values?: string[], hint?: string, value?: any}} Field
 * @typedef {{title: string, verb: string, fields: Field[], action: (values: Record<string, any>) => any}} Plan
 */

/** Whether what failed a run can be retried: a system or a program is started again. @param {any} root the row of the run */
export const mayRetry = (root) => root.state === "failed" && !["system", "program"].includes(root.kind);

/** Whether the server acts at all. */
export const mayAct = () => !about.read_only && !about.is_file;

/**
 * A button that opens the dialog of an action.
 * @param {{runKey: string, epoch: number, plan: Plan, label: string, hotkey?: string}} given
 */
export function ActionButton({ runKey, epoch, plan, label, hotkey }) {
  if (!mayAct()) return null;
  return html`<button data-hotkey=${hotkey} onClick=${() => show({ runKey, epoch, plan })}>${label}${hotkey && html` <kbd>${hotkey}</kbd>`}</button>`;
}

/** The open dialog; it stays while its button goes, as when the run has stopped. @type {{runKey: string, epoch: number, plan: Plan}|null} */
let shown = null;
let opened = 0;
let again = () => {};

/** @param {typeof shown} next */
function show(next) {
  shown = next;
  opened += 1;
  again();
}

/** The place of the dialog, once on a page. */
export function ActionPlace() {
  const [, set] = useState(0);
  useEffect(() => {
    again = () => set((n) => n + 1);
  }, []);
  const { path } = useAddress();
  useEffect(() => {
    if (shown && path[1] !== shown.runKey) show(null); // it is about a run that is not shown any more
  }, [path[1]]);
  const own = shown; // a dialog tells later that it was closed: the next may be open by then
  return html`${own && html`<${ActionDialog} key=${opened} ...${own} close=${() => own === shown && show(null)} />`}`;
}

/** @param {{runKey: string, epoch: number, plan: Plan, close: () => void}} given */
function ActionDialog({ runKey, epoch, plan, close }) {
  const place = useRef(/** @type {any} */ (null));
  const [values, setValues] = useState(() => Object.fromEntries(plan.fields.map((one) => [one.name, one.value ?? ""])));
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [verdict, setVerdict] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const isSent = useRef(false); // at once: a second Enter can come before the first has disabled the button
  const path = `/api/runs/${encodeURIComponent(runKey)}`;
  const body = { ...plan.action(values), epoch };
  const text = JSON.stringify(body);
  useEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    place.current.showModal();
    return () => before?.focus();
  }, []);
  useEffect(() => {
    let left = false;
    const timer = setTimeout(() => api(`${path}/preview`, body).then(
      (found) => left || (setShown(found), setProblem("")), (error) => left || setProblem(error.message)), 120);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [text]);
  const perform = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isSent.current) return;
    isSent.current = true;
    setBusy(true);
    setProblem("");
    try {
      const done = await api(`${path}/act`, body);
      setVerdict(done);
      announce(`${done.status}: ${done.detail}`);
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
    isSent.current = false;
    setBusy(false);
  };
  const change = (/** @type {Field} */ field) => (/** @type {any} */ event) =>
    setValues((now) => ({ ...now, [field.name]: field.type === "check" ? event.target.checked : event.target.value }));
  return html`<dialog ref=${place} onClose=${close} aria-label=${plan.title}><form onSubmit=${perform}>
    <h2>${plan.title}</h2>
    ${plan.fields.map((field) => html`<${Input} key=${field.name} field=${field} value=${values[field.name]} change=${change(field)} />`)}
    ${shown && html`<p>This <${Text} text=${shown.what} />.</p><${Command} line=${shown.command} />`}
    ${problem && html`<${Problem} text=${problem} />`}
    ${verdict && html`<${Verdict} verdict=${verdict} />`}
    <div class="actions end">${verdict?.run && html`<button type="button" onClick=${() => go(runPath(verdict.run))}>Open the new run</button>`}
      <button type="button" onClick=${() => place.current.close()}>${verdict ? "Close" : "Cancel"}</button>
      ${(!verdict || verdict.status === "refused") && html`<button class="main" disabled=${busy}>${busy ? "…" : plan.verb}</button>`}</div></form></dialog>`;
}

/** What the run said to an action. @param {{verdict: any}} given */
export function Verdict({ verdict }) {
  const look = verdict.status === "refused" ? "fail" : verdict.status === "queued" ? "wait" : "done";
  return html`<p class="verdict" role="status"><span class="state ${look}">${verdict.status}</span> <${Text} text=${verdict.detail} /></p>`;
}

/** @param {{field: Field, value: any, change: (event: any) => void}} given */
export function Input({ field, value, change }) {
  const hint = field.hint && html`<span class="quiet">${field.hint}</span>`;
  switch (field.type) {
    case "area": return html`<label class="field"><span>${field.label}</span><textarea rows="4" value=${value} onInput=${change}></textarea>${hint}</label>`;
    case "check": return html`<label class="check"><input type="checkbox" checked=${value} onChange=${change} /> ${field.label}</label>`;
    case "choice": return html`<label class="field"><span>${field.label}</span><select value=${value} onChange=${change}><option value="">–</option>
      ${field.values?.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>${hint}</label>`;
    default: return html`<label class="field"><span>${field.label}</span><input type=${field.type === "number" ? "number" : "text"} step="any" value=${value} onInput=${change} />${hint}</label>`;
  }
}

/** @param {string} turn @returns {Plan} */
export const guiding = (turn) => ({
  title: turn ? `Guide ${turn}` : "Guide the run", verb: "Guide",
  fields: [{ name: "text", label: "What should it know or do?", type: "area" }, { name: "interrupt", label: "interrupt its attempt, so that it has this at once", type: "check", value: false }],
  action: ({ text, interrupt }) => ({ do: "guide", turn, text, interrupt: Boolean(interrupt) }),
});

/** @param {string} turn @returns {Plan} */
export const interrupting = (turn) => ({
  title: turn ? `Interrupt ${turn}` : "Interrupt what runs", verb: "Interrupt", fields: [], action: () => ({ do: "interrupt", turn }),
});

/** @returns {Plan} */
export const stopping = () => ({ title: "Stop the run", verb: "Stop", fields: [], action: () => ({ do: "stop" }) });

/** @param {boolean} retry @param {any} root the row of the run @param {string} [turn] the only turn to retry @returns {Plan} */
export const resuming = (retry, root, turn = "") => ({
  title: retry ? `Retry ${turn || "what failed"}` : "Resume the run", verb: retry ? "Retry" : "Resume",
  fields: [
    { name: "max_cost", label: "Budget in US dollars", type: "number", hint: root.max_cost ? `now ${root.max_cost}; what was used counts` : "none now; empty keeps that" },
    { name: "max_turns", label: "Turns at most", type: "number", hint: root.max_turns ? `now ${root.max_turns}; those so far count` : "no limit now; empty keeps that" },
    { name: "try_now", label: "try at once what waits for a quota", type: "check", value: false },
  ],
  action: ({ max_cost, max_turns, try_now }) => ({
    do: "resume", retry, turn, try_now: Boolean(try_now), max_cost: max_cost === "" ? null : Number(max_cost), max_turns: max_turns === "" ? null : Number(max_turns),
  }),
});

/** @param {{turn?: string, at?: number|null, agent?: string, prompt?: string, agents: string[]}} given @returns {Plan} */
export const forking = ({ turn = "", at = null, agent = "", prompt = "", agents }) => ({
  title: turn ? `Fork from ${turn}` : at ? `Fork from record ${at}` : "Fork the run", verb: "Fork",
  fields: [
    { name: "agent", label: "Change an agent", type: "choice", values: agents, value: agent },
    { name: "model", label: "Its model", hint: "empty: as it is" },
    { name: "prompt", label: "Its prompt", type: "area", value: prompt, hint: "empty: as it is" },
    { name: "go", label: "go on with the new run at once", type: "check", value: true },
  ],
  action: (values) => ({
    do: "fork", turn, at, go: Boolean(values.go), models: values.model ? { [values.agent]: values.model } : {},
    prompts: values.agent && values.prompt && values.prompt !== prompt ? { [values.agent]: values.prompt } : {},
  }),
});
