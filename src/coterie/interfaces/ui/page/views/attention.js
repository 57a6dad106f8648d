// What needs a person, answered in place: with its words as buttons, or with the fields of a question as a form.
import { html, useLayoutEffect, useRef, useState } from "page/base.js";
import { runPath } from "page/address.js";
import { Input, mayAct, notify, Verdict } from "page/actions.js";
import { Ago, Command, refocus, Text } from "page/parts.js";
import { api } from "page/store.js";
import { visible } from "page/words.js";
import { addressOf } from "page/views/turn.js";

/** What the words mean that answer a permission, a stall and others. */
const MEANING = /** @type {Record<string, string>} */ ({
  allow: "Allow once", always: "Always in this run", project: "Always in this project", deny: "Deny", park: "Park the turn",
  fail: "Fail the attempt", wait: "Wait", interrupt: "Interrupt", take: "Take the settings", keep: "Keep the old ones",
  retry: "Try again", cancel: "Cancel the turn",
});
const HOTKEYS = /** @type {Record<string, string>} */ ({ allow: "a", always: "r", project: "p", deny: "d" });

/** The text of a request on one line, without the headings of a prompt. @param {string} text */
const oneLine = (text) => text.replace(/(^|\s)#+ [^\n]*(\n|$)/g, " ").replace(/^~~~\w*$/gm, "").replace(/\s+/g, " ").trim();

/**
 * On the home page it is one line with its buttons, until it is opened.
 * @param {{one: any, inRun?: boolean}} given `one` has the key of its run
 */
export function Attention({ one, inRun = false }) {
  const [open, setOpen] = useState(inRun);
  const box = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => () => {
    if (!box.current?.contains(document.activeElement)) return;
    const next = box.current.nextElementSibling ?? box.current.previousElementSibling; // it goes with the focus in it
    requestAnimationFrame(() => refocus(next));
  }, []);
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
      const verdict = await api(`/api/runs/${encodeURIComponent(one.key)}/act`, { do: "answer", id: one.id, since: one.since, text, outputs, go: isParked });
      setVerdict(verdict);
      notify(verdict, one);
    } catch (error) {
      setVerdict({ status: "refused", detail: /** @type {Error} */ (error).message });
    }
    isSent.current = false;
    setBusy("");
  };
  const isParked = !one.driven && ["question", "parked"].includes(one.kind);
  const isForm = !one.answers.length && one.kind === "question";
  const choice = isForm && choiceOf(one.fields ?? []);
  const words = /** @type {string[]} */ (choice ? choice.values.map(String) : one.answers);
  const give = (/** @type {string} */ word) => (choice ? send("", { [choice.name]: choice.values.find((/** @type {any} */ value) => String(value) === word) }) : send(word));
  const buttons = (mayAct() ? words : []).map((word, n) => html`<button key=${word} class=${n ? "" : "main"} aria-disabled=${Boolean(busy)} data-answer=${word} data-hotkey=${HOTKEYS[word]} onClick=${() => give(word)}>${
    MEANING[word] ?? word}${HOTKEYS[word] && html` <kbd>${HOTKEYS[word]}</kbd>`}</button>`);
  const fold = html`<button class="small" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "less" : words.length || !mayAct() ? "more" : "answer…"}</button>`;
  return html`<div class="ask" ref=${box} data-row data-attention=${one.id} data-seen=${seen.current} tabindex="-1">
    <div class="actions"><span class="state wait">${one.kind}</span>
      ${!inRun && html`<a href=${runPath(one.key, "", turn)}><b><${Text} text=${one.team || one.run} /></b></a>`}
      ${open ? html`<span class="grow"></span>` : html`<span class="cut grow" title=${visible(one.text)}><${Text} text=${oneLine(one.text)} /></span>${buttons}`}
      ${inRun && turn && html`<a class="link" href=${runPath(one.key, "", turn)}>show the turn</a>`}
      <span class="quiet">asked <${Ago} at=${one.since} />${one.due ? html` · ${one.policy} <${Ago} at=${one.due} />` : null}</span>${fold}</div>
    ${open && html`<pre class="text question" tabindex="0"><${Text} text=${one.text} /></pre>
      ${mayAct() && isParked && html`<p class="quiet">No process drives the run: an answer resumes it.</p>`}
      ${!choice && buttons.length > 0 && html`<div class="actions">${buttons}${one.rule && html`<span class="quiet">always: <code><${Text} text=${one.rule} /></code></span>`}</div>`}
      ${mayAct() && isForm && html`<${Form} isParked=${isParked} fields=${one.fields ?? []} send=${send} busy=${Boolean(busy)} />`}
      <${Command} line=${one.command} />`}
    <${Verdict} verdict=${verdict} /></div>`;
}

/** The only field of an answer, if it is a choice: its values are buttons. @param {any[]} fields */
const choiceOf = (fields) => (fields.length === 1 && fields[0].type === "enum" ? fields[0] : null);

/** The answer to a question. @param {{fields: any[], send: (text: string, outputs: any) => void, busy: boolean, isParked: boolean}} given */
function Form({ fields, send, busy, isParked }) {
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const [text, setText] = useState("");
  const choice = choiceOf(fields);
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
    html`<button type="button" key=${value} class=${n ? "" : "main"} data-answer=${value} aria-disabled=${busy} onClick=${() => answer({ [choice.name]: String(value) })}>${String(value)}</button>`)}${said}</div></form>`;
  return html`<form onSubmit=${submit}>${fields.map((one) => html`<${Input} key=${one.name} value=${values[one.name] ?? (one.type === "boolean" ? false : "")}
      field=${{ name: one.name, label: one.name, values: one.values?.map(String), type: one.type === "enum" ? "choice" : one.type === "boolean" ? "check" : one.type === "number" || one.type === "integer" ? "number" : one.type === "list" ? "area" : "text", hint: one.type === "list" ? "one a line" : "" }}
      change=${(/** @type {any} */ event) => setValues((now) => ({ ...now, [one.name]: one.type === "boolean" ? event.target.checked : event.target.value }))} />`)}
    ${said}<div class="actions"><button class="main" aria-disabled=${busy}>${isParked ? "Answer and resume" : "Answer"}</button></div></form>`;
}
