// The keys of the page: everything can be done with them. `?` lists them.
import { html, useEffect, useRef, useState } from "page/base.js";
import { go, here } from "page/address.js";

export const KEYS = /** @type {[string, string][]} */ ([
  ["?", "this list"], ["/", "search"], ["g h", "all runs"], ["g p", "plan"], ["g t", "timeline"], ["g e", "tree"], ["g r", "records"], ["g c", "cost"],
  ["j  k", "next, previous row or node"], ["Enter", "open it"], ["Esc", "close, go back"], ["f", "the first failure"],
  ["a  r  p  d", "allow once, always in the run, always in the project, deny: what is focused, else the first"],
  ["G  I  R  F", "guide, interrupt, retry the open turn, fork from it"], ["S", "stop, resume or retry the run"],
]);
const VIEWS = /** @type {Record<string, string>} */ ({ p: "plan", t: "timeline", e: "tree", r: "records", c: "cost" });

/** Milliseconds for which what has just come is not answered by a key that was meant for what stood there before. */
const UNSEEN = 700;

/** Listens to the keys, and shows their list. */
export function Keys() {
  const [open, setOpen] = useState(0);
  const place = useRef(/** @type {any} */ (null));
  const began = useRef(0);
  useEffect(() => {
    const down = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      const typing = target.matches("input, textarea, select") && !target.matches("[type=checkbox]");
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "Escape") return escape(target, typing);
      if (typing || (event.repeat && !"jk".includes(event.key))) return; // a key that is held down acts once
      const afterG = Date.now() - began.current < 1200;
      began.current = event.key === "g" ? Date.now() : 0;
      const done = afterG ? leave(event.key) : act(event.key, () => setOpen((n) => n + 1));
      if (done) event.preventDefault();
    };
    addEventListener("keydown", down);
    return () => removeEventListener("keydown", down);
  }, []);
  useEffect(() => {
    if (open) place.current.showModal();
  }, [open]);
  return html`${open > 0 && html`<dialog key=${open} ref=${place} onClose=${() => setOpen((now) => (now === open ? 0 : now))} aria-label="Keys"><h2>Keys</h2>
    <table class="keys"><tbody>${KEYS.map(([key, what]) => html`<tr key=${key}><td>${key.split(/ +/).map((one) => html`<kbd key=${one}>${one}</kbd> `)}</td><td>${what}</td></tr>`)}</tbody></table>
    <div class="actions end"><button onClick=${() => place.current.close()}>Close</button></div></dialog>`}`;
}

/** @param {HTMLElement} target @param {boolean} typing */
function escape(target, typing) {
  if (typing) target.blur();
  else {
    const close = /** @type {HTMLElement|null} */ (document.querySelector("[data-close]"));
    if (close) close.click();
    else if (here().pathname !== "/") go("/");
  }
}

/** @param {string} key after g @returns {boolean} */
function leave(key) {
  const match = here().pathname.match(/^\/runs\/[^/]+/);
  if (key === "h") go("/");
  else if (match && VIEWS[key]) go(`${match[0]}/${VIEWS[key]}${here().search}`);
  else return false;
  return true;
}

/** @param {string} key @param {() => void} help @returns {boolean} whether it did something */
function act(key, help) {
  if (key === "?") help();
  else if (key === "/") /** @type {HTMLElement|null} */ (document.querySelector("[data-search]") ?? document.getElementById("search"))?.focus();
  else if (key === "j" || key === "k") walk(key === "j" ? 1 : -1);
  else {
    const within = document.activeElement?.closest("[data-attention]") ?? document;
    const button = /** @type {HTMLElement|null} */ (within.querySelector(`[data-hotkey="${CSS.escape(key)}"]`));
    if (!button) return false;
    const ask = /** @type {HTMLElement|null} */ (button.closest("[data-attention]"));
    if (ask && within === document && performance.now() - Number(ask.dataset.seen) < UNSEEN) ask.focus(); // it took the place of another
    else button.click();
  }
  return true;
}

/** Focus the next row, or the one before. @param {number} by */
function walk(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);
  const at = rows.findIndex((one) => one === document.activeElement || (by > 0 && one.contains(document.activeElement)));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
