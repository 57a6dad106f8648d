// What went wrong first: the turn, why, and the end of what its process printed.
import { html, useEffect, useRef } from "page/base.js";
import { Ago, Problem, Text } from "page/parts.js";
import { useFetched } from "page/store.js";
import { visible } from "page/words.js";
import { addressOf } from "page/views/addresses.js";

/**
 * Shown above the views of a run that failed, or in which a turn did and that has not completed; `f` goes there.
 * @param {{state: any, runKey: string, turn: string, select: (turn: string) => void}} given
 */
export function Failure({ state, runKey, turn, select }) {
  const run = state.runs[state.here.run.run];
  const box = useRef(/** @type {any} */ (null));
  const isShown = run.state === "failed" || (run.failed > 0 && run.state !== "completed");
  const { value, problem } = useFetched(isShown ? `/api/runs/${encodeURIComponent(runKey)}/failure` : "", run.state === "failed" ? run.seq : run.failed);
  const first = run.failed_first ?? value;
  const address = first?.turn ? addressOf(run.id, first.run, first.turn) : "";
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
  if (!isShown) return null;
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
