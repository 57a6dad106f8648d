// What needs a person, answered in place: with its words as buttons, or with the fields of a question as a form.
import { html, useRef, useState } from "../base.js";
import { runPath } from "../address.js";
import { Input, mayAct, Verdict } from "../actions.js";
import { Ago, announce, Command, Text } from "../parts.js";
import { api } from "../store.js";
import { addressOf } from "./turn.js";

/** What the words mean that answer a permission, a stall and others. */
const MEANING = /** @type {Record<string, string>} */ ({
  allow: "Allow once", always: "Always in this run", project: "Always in this project", deny: "Deny", park: "Park the turn",
  fail: "Fail the attempt", wait: "Wait", interrupt: "Interrupt", take: "Take the settings", keep: "Keep the old ones",
  retry: "Try again", cancel: "Cancel the turn",
});
const HOTKEYS = /** @type {Record<string, string>} */ ({ allow: "a", always: "r", project: "p", deny: "d" });

/** @param {{one: any, inRun?: boolean}} given `one` has the key of its run */
export function Attention({ one, inRun = false }) {
  const [verdict, setVerdict] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState("");
  const isSent = useRef(false); // at once: a second click can come before the first has disabled the button
  const seen = useRef(performance.now());
  const turn = one.turn ? addressOf(one.run, one.turn) : "";
  const send = async (/** @type {string} */ text, /** @type {any} */ outputs = null) => {
    if (isSent.current) return;
    isSent.current = true;
    setBusy(text || "…");
    try {
      setVerdict(await api(`/api/runs/${encodeURIComponent(one.key)}/act`, { do: "answer", id: one.id, since: one.since, text, outputs }));
    } catch (error) {
      setVerdict({ status: "refused", detail: /** @type {Error} */ (error).message });
    }
    announce("answered");
    isSent.current = false;
    setBusy("");
  };
  const isForm = !one.answers.length && one.kind === "question";
  return html`<div class="ask" data-row data-attention=${one.id} data-seen=${seen.current} tabindex="-1">
    <div class="actions"><span class="state wait">${one.kind}</span>
      <span class="grow">${!inRun && html`<a href=${runPath(one.key, "", turn)}><b><${Text} text=${one.team || one.run} /></b></a> `}${one.kind === "question" ? html`<pre class="text question"><${Text} text=${one.text} /></pre>` : html`<${Text} text=${one.text} />`}${
        inRun && turn && html` <a href=${runPath(one.key, "", turn)}>show the turn</a>`}</span>
      <span class="quiet">asked <${Ago} at=${one.since} />${one.due ? html` · ${one.policy} <${Ago} at=${one.due} />` : null}</span></div>
    ${mayAct() && one.answers.length > 0 && html`<div class="actions">${one.answers.map((/** @type {string} */ word, /** @type {number} */ n) =>
      html`<button key=${word} class=${n ? "" : "main"} disabled=${Boolean(busy)} data-answer=${word} data-hotkey=${HOTKEYS[word]} onClick=${() => send(word)}>${MEANING[word] ?? word}${HOTKEYS[word] && html` <kbd>${HOTKEYS[word]}</kbd>`}</button>`)}
      ${one.rule && html`<span class="quiet">always: <code><${Text} text=${one.rule} /></code></span>`}</div>`}
    ${mayAct() && isForm && html`<${Form} fields=${one.fields ?? []} send=${send} busy=${Boolean(busy)} />`}
    ${verdict && html`<${Verdict} verdict=${verdict} />`}
    <${Command} line=${one.command} /></div>`;
}

/** The answer to a question. @param {{fields: any[], send: (text: string, outputs: any) => void, busy: boolean}} given */
function Form({ fields, send, busy }) {
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const [text, setText] = useState("");
  const choice = fields.length === 1 && fields[0].type === "enum" ? fields[0] : null;
  const answer = (/** @type {Record<string, any>} */ given) => {
    /** @type {Record<string, any>} */ const outputs = {};
    for (const one of fields) {
      const value = given[one.name];
      if (value === undefined || value === "") continue;
      outputs[one.name] = one.type === "number" || one.type === "integer" ? Number(value)
        : one.type === "list" ? String(value).split("\n").filter(Boolean)
        : one.type === "enum" ? one.values.find((/** @type {any} */ known) => String(known) === value) ?? value : value;
    }
    send(text, Object.keys(outputs).length ? outputs : null);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    answer(values);
  };
  const said = html`<label class="field grow"><span>${fields.length ? "Comment (optional)" : "Answer"}</span>${fields.length
    ? html`<input value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />`
    : html`<textarea rows="2" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>`}</label>`;
  if (choice) return html`<form onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}><div class="actions low"><span class="quiet">${choice.name}</span>${choice.values.map((/** @type {any} */ value, /** @type {number} */ n) =>
    html`<button type="button" key=${value} class=${n ? "" : "main"} data-answer=${value} disabled=${busy} onClick=${() => answer({ [choice.name]: String(value) })}>${String(value)}</button>`)}${said}</div></form>`;
  return html`<form onSubmit=${submit}>${fields.map((one) => html`<${Input} key=${one.name} value=${values[one.name] ?? (one.type === "boolean" ? false : "")}
      field=${{ name: one.name, label: one.name, values: one.values?.map(String), type: one.type === "enum" ? "choice" : one.type === "boolean" ? "check" : one.type === "number" || one.type === "integer" ? "number" : one.type === "list" ? "area" : "text", hint: one.type === "list" ? "one a line" : "" }}
      change=${(/** @type {any} */ event) => setValues((now) => ({ ...now, [one.name]: one.type === "boolean" ? event.target.checked : event.target.value }))} />`)}
    ${said}<div class="actions"><button class="main" disabled=${busy}>Answer</button></div></form>`;
}
