// Actions: each says what it will do, shows the command that does the same, and shows the verdict that the run gave.
import { html, useEffect, useRef, useState } from "page/base.js";
import { go, runPath, useAddress } from "page/address.js";
import { Command, Problem, refocus, Text } from "page/parts.js";
import { about, api, useFetched } from "page/store.js";

/**
 * @typedef {{name: string, label: string, type?: "text"|"area"|"number"|"check"|"choice", values?: string[], hint?: string, value?: any, needed?: boolean}} Field
 * @typedef {{title: string, verb: string, fields: (values: Record<string, any>, base: any) => Field[], action: (values: Record<string, any>, base: any) => any, from?: string}} Plan
 * `from`: what the fields begin with, below the run; `fields` may depend on what was chosen in others
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

/** The last answer of this page, which stays when the question is gone. @type {{verdict: any, about: string}|null} */
let noticed = null;

/** @param {any} verdict @param {any} one the request */
export function notify(verdict, one) {
  noticed = verdict.status === "refused" ? null : { verdict, about: `${one.team || one.run}: ${one.id}` }; // a refusal is shown at the question
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
  const close = () => {
    noticed = null;
    again();
  };
  return html`${noticed && html`<div class="notice"><${Verdict} verdict=${{ ...noticed.verdict, detail: `${noticed.about}: ${noticed.verdict.detail || "answered"}` }} /><button class="small" onClick=${close}>close</button></div>`}
    ${own && html`<${ActionDialog} key=${opened} ...${own} close=${() => own === shown && show(null)} />`}`;
}

/** @param {{runKey: string, epoch: number, plan: Plan, close: () => void}} given */
function ActionDialog({ runKey, epoch, plan, close }) {
  const place = useRef(/** @type {any} */ (null));
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [verdict, setVerdict] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const isSent = useRef(false); // at once: a second Enter can come before the first has disabled the button
  const path = `/api/runs/${encodeURIComponent(runKey)}`;
  const base = useFetched(plan.from ? `${path}/${plan.from}` : "");
  const isReady = !plan.from || Boolean(base.value);
  const fields = isReady ? plan.fields(values, base.value) : [];
  const given = { ...Object.fromEntries(fields.map((one) => [one.name, one.value ?? ""])), ...values };
  const body = isReady ? { ...plan.action(given, base.value), epoch } : null;
  const text = JSON.stringify(body);
  useEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    place.current.showModal();
    return () => refocus(before);
  }, []);
  useEffect(() => {
    if (!body) return undefined;
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
    if (isSent.current || !body) return;
    isSent.current = true;
    setBusy(true);
    setProblem("");
    try {
      setVerdict(await api(`${path}/act`, body));
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
    isSent.current = false;
    setBusy(false);
  };
  useEffect(() => {
    if (verdict && verdict.status !== "refused") place.current.querySelector("[data-done]")?.focus(); // the button that had it is gone
  }, [verdict]);
  const change = (/** @type {Field} */ field) => (/** @type {any} */ event) =>
    setValues((now) => ({ ...now, [field.name]: field.type === "check" ? event.target.checked : event.target.value }));
  return html`<dialog ref=${place} onClose=${close} aria-label=${plan.title}><form onSubmit=${perform}>
    <h2>${plan.title}</h2>
    ${base.problem && html`<${Problem} text=${base.problem} />`}
    ${fields.map((field) => html`<${Input} key=${field.name} field=${field} value=${given[field.name]} change=${change(field)} />`)}
    ${shown && html`<p>This <${Text} text=${shown.what} />.</p><${Command} line=${shown.command} />`}
    ${problem && html`<${Problem} text=${problem} />`}
    <${Verdict} verdict=${verdict} />
    <div class="actions end">${verdict?.run && html`<button type="button" onClick=${() => go(runPath(verdict.run))}>Open the new run</button>`}
      <button type="button" data-done onClick=${() => place.current.close()}>${verdict ? "Close" : "Cancel"}</button>
      ${(!verdict || verdict.status === "refused") && html`<button class="main" aria-disabled=${busy || !isReady}>${busy ? "…" : plan.verb}</button>`}</div></form></dialog>`;
}

/** What the run said to an action: a refusal interrupts a screen reader, other verdicts wait. @param {{verdict: any}} given */
export function Verdict({ verdict }) {
  const isRefused = verdict?.status === "refused";
  const text = verdict && html`<p class="verdict"><span class="state ${isRefused ? "fail" : verdict.status === "queued" ? "wait" : "done"}">${verdict.status}</span> <${Text} text=${verdict.detail} /></p>`;
  return html`<div class="verdicts"><div role="status">${!isRefused && text}</div><div role="alert">${isRefused && text}</div></div>`;
}

/** @param {{field: Field, value: any, change: (event: any) => void}} given */
export function Input({ field, value, change }) {
  const hint = field.hint && html`<span class="quiet">${field.hint}</span>`;
  switch (field.type) {
    case "area": return html`<label class="field"><span>${field.label}</span><textarea rows="4" value=${value} onInput=${change}></textarea>${hint}</label>`;
    case "check": return html`<label class="check"><input type="checkbox" checked=${value} onChange=${change} /> ${field.label}</label>`;
    case "choice": return html`<label class="field"><span>${field.label}</span><select value=${value} onChange=${change}>${!field.needed && html`<option value="">–</option>`}
      ${field.values?.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>${hint}</label>`;
    default: return html`<label class="field"><span>${field.label}</span><input type=${field.type === "number" ? "number" : "text"} step="any" value=${value} onInput=${change} />${hint}</label>`;
  }
}

/** @param {string} turn @returns {Plan} */
export const guiding = (turn) => ({
  title: turn ? `Guide ${turn}` : "Guide the run", verb: "Guide",
  fields: () => [{ name: "text", label: "What should it know or do?", type: "area" }, { name: "interrupt", label: "interrupt its attempt, so that it has this at once", type: "check", value: false }],
  action: ({ text, interrupt }) => ({ do: "guide", turn, text, interrupt: Boolean(interrupt) }),
});

/** @param {string} turn @returns {Plan} */
export const interrupting = (turn) => ({
  title: turn ? `Interrupt ${turn}` : "Interrupt what runs", verb: "Interrupt", fields: () => [], action: () => ({ do: "interrupt", turn }),
});

/** @returns {Plan} */
export const stopping = () => ({ title: "Stop the run", verb: "Stop", fields: () => [], action: () => ({ do: "stop" }) });

/** @param {boolean} retry @param {any} root the row of the run @param {string} [turn] the only turn to retry @returns {Plan} */
export const resuming = (retry, root, turn = "") => ({
  title: retry ? `Retry ${turn || "what failed"}` : "Resume the run", verb: retry ? "Retry" : "Resume",
  fields: () => [
    { name: "max_cost", label: "Budget in US dollars", type: "number", hint: root.max_cost ? `now ${root.max_cost}; what was used counts` : "none now; empty keeps that" },
    { name: "max_turns", label: "Turns at most", type: "number", hint: root.max_turns ? `now ${root.max_turns}; those so far count` : "no limit now; empty keeps that" },
    { name: "try_now", label: "try at once what waits for a quota", type: "check", value: false },
  ],
  action: ({ max_cost, max_turns, try_now }) => ({
    do: "resume", retry, turn, try_now: Boolean(try_now), max_cost: max_cost === "" ? null : Number(max_cost), max_turns: max_turns === "" ? null : Number(max_turns),
  }),
});
