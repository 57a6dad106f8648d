// What went wrong first: the turn, why, and the end of what its process printed.
import { html, useEffect, useRef } from "../base.js";
import { Ago, Problem, Text } from "../parts.js";
import { useFetched } from "../store.js";
import { visible } from "../words.js";
import { addressOf } from "./addresses.js";

/** Where a failed run went wrong first; empty if nowhere. @param {any} state @returns {string} the address of the turn */
export function failedFirst(state) {
  const root = state.here.run.run;
  const first = state.runs[root]?.failed_first;
  return first?.turn ? addressOf(root, first.run, first.turn) : "";
}

/**
 * Shown in a failed run above its views; `f` goes there.
 * @param {{state: any, runKey: string, turn: string, select: (turn: string) => void}} given
 */
export function Failure({ state, runKey, turn, select }) {
  const run = state.runs[state.here.run.run];
  const box = useRef(/** @type {any} */ (null));
  const isFailed = run.state === "failed";
  const { value, problem } = useFetched(isFailed ? `/api/runs/${encodeURIComponent(runKey)}/failure` : "", run.seq);
  const address = failedFirst(state);
  const show = () => {
    if (address) select(address);
    requestAnimationFrame(() => {
      (box.current?.querySelector("pre") ?? box.current)?.focus();
      box.current?.scrollIntoView({ block: "nearest" });
    });
  };
  useEffect(() => {
    for (const one of box.current?.querySelectorAll("pre") ?? []) one.scrollTop = one.scrollHeight; // the end says why
  }, [value]);
  if (!isFailed) return null;
  const how = value && [value.kind && value.kind !== "exit" ? value.kind : "", value.exit_code !== null ? `exit status ${value.exit_code}` : "", value.signal ? `ended by ${value.signal}` : "", value.attempt > 1 ? `attempt ${value.attempt}` : ""].filter(Boolean).join(" · ");
  const printed = /** @type {[string, string][]} */ (value ? [["printed", value.output], ["printed as errors", value.log]].filter(([, text]) => text) : []);
  return html`<section class="panel failure" ref=${box} tabindex="-1" aria-label="What went wrong first">
    <div class="actions"><span class="state fail">failed first</span>
      ${address ? html`<button data-hotkey="f" onClick=${show} aria-pressed=${turn === address}><b><${Text} text=${address} /></b> <kbd>f</kbd></button>` : html`<b>the run itself</b><button class="small" data-hotkey="f" onClick=${show}>look <kbd>f</kbd></button>`}
      ${value && html`<span class="quiet">${how}${how ? " · " : ""}<${Ago} at=${value.at} /></span>`}</div>
    ${problem && html`<${Problem} text=${problem} />`}
    ${value && html`<p class="reason"><${Text} text=${value.reason} /></p>`}
    ${printed.map(([title, text]) => html`<div key=${title}><h2>${`The end of what it ${title}`}</h2><pre class="text" tabindex="0" data-failure>${visible(text)}</pre></div>`)}
    ${value && address && !printed.length && html`<p class="quiet">Its process printed nothing.</p>`}</section>`;
}
