// A diff as git writes it: lines that were added and removed, by mark and colour.
import { html } from "page/base.js";
import { Text } from "page/parts.js";
import { count, visible } from "page/words.js";

const MOST = 3000; // lines of a file

/** @param {{text: string, files: {path: string, added: number|null, removed: number|null}[], isCut: boolean}} given */
export function Diff({ text, files, isCut }) {
  const parts = text.split(/^(?=diff --git )/m).filter(Boolean);
  return html`<div class="list">${files.map((file, n) => html`<details key=${file.path} open=${files.length === 1}>
    <summary><code class="cut"><${Text} text=${file.path} /></code> <span class="added">${file.added === null ? "binary" : `+${file.added}`}</span> <span class="removed">${file.removed === null ? "" : `−${file.removed}`}</span></summary>
    <${Lines} text=${parts[n] ?? ""} /></details>`)}${isCut && html`<p class="quiet">The diff is longer than 1 MB; its end is left out.</p>`}</div>`;
}

/** @param {{text: string}} given */
function Lines({ text }) {
  const all = text.split("\n"), lines = all.slice(0, MOST);
  return html`<pre class="text diff" tabindex="0">${lines.map((line, n) => {
    const look = /^(\+\+\+|---|diff|index|new file|deleted)/.test(line) ? "quiet" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : line[0] === "@" ? "quiet" : "";
    return html`<span key=${n} class=${look}>${`${visible(line)}\n`}</span>`;
  })}</pre>${all.length > MOST && html`<p class="quiet">${count(all.length - MOST, "further line")} left out.</p>`}`;
}
