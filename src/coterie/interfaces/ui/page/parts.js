// The small parts that all views are made of.
import { here } from "page/address.js";
import { html, useEffect, useRef, useState } from "page/base.js";
import { serverNow } from "page/store.js";
import { absolute, ago, duration, stateWords, visible } from "page/words.js";

/** @type {Set<() => void>} */
const ticking = new Set();
setInterval(() => {
  if (!document.hidden) ticking.forEach((one) => one());
}, 1000);

/** The time now, in Unix seconds, again each second. */
export function useNow() {
  const [now, set] = useState(serverNow());
  useEffect(() => {
    const one = () => set(serverNow());
    ticking.add(one);
    return () => void ticking.delete(one);
  }, []);
  return now;
}

/** @param {{state: string, words?: string}} given */
export function State({ state, words }) {
  const [look, word] = stateWords(state);
  return html`<span class="state ${look}">${visible(words || word)}</span>`;
}

/** A time, relative; the absolute one is its title. @param {{at: number}} given */
export function Ago({ at }) {
  const now = useNow();
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${absolute(at)}>${ago(at, now)}</time>`;
}

/** How long something takes or took. @param {{from: number, to?: number|null}} given */
export function Lasted({ from, to }) {
  return to === null || to === undefined ? html`<${Running} from=${from} />` : html`<span title=${absolute(from)}>${duration(to - from)}</span>`;
}

/** @param {{from: number}} given */
function Running({ from }) {
  const now = useNow();
  return html`<span title=${absolute(from)}>${duration(now - from)}</span>`;
}

/** When `run` ended; of one that no process drives, the last record of it or below it; null while it goes on. @param {any} state @param {any} run its row @returns {number|null} */
export function endOf(state, run) {
  if (run.finished || state.here.run.owned) return run.finished;
  return Object.values(state.runs).reduce((last, one) => (one.id.startsWith(`${run.id}/`) ? Math.max(last, one.at) : last), run.at);
}

/** Text of an agent, as text. @param {{children?: any, text?: string}} given */
export const Text = ({ text }) => html`<bdi>${visible(text ?? "")}</bdi>`;

const SHORT = 110; // letters of a command that is shown whole

/** A command line to copy; a long one is folded to one line. @param {{line: string}} given */
export function Command({ line }) {
  const [copied, set] = useState(false);
  const [open, setOpen] = useState(false);
  const isLong = line.length > SHORT || line.includes("\n");
  const copy = () => navigator.clipboard?.writeText(line).then(() => {
    set(true);
    setTimeout(() => set(false), 1500);
  });
  return html`<span class="command"><code class=${isLong && !open ? "cut" : ""} title=${isLong && !open ? visible(line) : null}>${visible(line)}</code>
    ${isLong && html`<button class="small" aria-expanded=${open} onClick=${() => setOpen(!open)} aria-label=${open ? "less of the command" : "more of the command"}>${open ? "less" : "more"}</button>`}
    <button class="small" onClick=${copy} aria-label="Copy the command">${copied ? "copied" : "copy"}</button></span>`;
}

/** Focus `element`, or the content if it is gone. @param {Element|null|undefined} element */
export function refocus(element) {
  const place = element?.isConnected ? element : document.getElementById("main");
  /** @type {HTMLElement|null} */ (place)?.focus();
}

/** What to do where there is nothing to show. @param {{children?: any}} given */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** Why something cannot be shown. @param {{text: string}} given */
export const Problem = ({ text }) => html`<p class="problem" role="alert"><span class="state fail">${visible(text)}</span></p>`;

/** Where an address leads nowhere. */
export function Unknown() {
  useEffect(() => {
    document.title = "Nothing here · Coterie";
  });
  return html`<h1>Nothing is here</h1><p>The page has nothing at <code>${visible(here().pathname)}</code>. <a class="link" href="/">Show all runs</a></p>`;
}

/** A share as a bar; its text stands beside it. @param {{part: number, of: number}} given */
export const Bar = ({ part, of }) =>
  html`<span class="bar" aria-hidden="true"><i style=${{ width: `${Math.min(100, (100 * part) / Math.max(of, 1))}%` }}></i></span>`;

/** Say `text` to a screen reader; a refusal or an error at once. @param {string} text @param {"announcer"|"alarm"} [id] */
export function announce(text, id = "announcer") {
  const place = document.getElementById(id);
  if (place) place.textContent = text;
}

/**
 * A text that is taken when typing pauses, unless the page shows something else by then.
 * @param {{value: string, set: (text: string) => void, label: string, id?: string, placeholder?: string}} given
 */
export function Typed({ value, set, label, id, placeholder }) {
  const waiting = useRef(/** @type {any} */ (0));
  const taken = useRef(value);
  const [text, setText] = useState(value);
  if (value !== taken.current) { // set from elsewhere
    taken.current = value;
    setText(value);
  }
  const typed = (/** @type {any} */ event) => {
    clearTimeout(waiting.current);
    const now = event.target.value, at = here().pathname;
    setText(now); // a render in between must not undo what is typed
    waiting.current = setTimeout(() => {
      if (here().pathname !== at) return setText(taken.current);
      taken.current = now;
      set(now);
    }, 200);
  };
  useEffect(() => () => clearTimeout(waiting.current), []);
  return html`<input type="search" id=${id} data-search=${id ? null : ""} placeholder=${placeholder} value=${text} aria-label=${label} onInput=${typed} />`;
}
