// The page of one run in one file: the same views, without a server and without actions.
import { html, render } from "page/base.js";
import { inHash, takeLinks, useAddress } from "page/address.js";
import { embedded } from "page/embedded.js";
import { Keys } from "page/keys.js";
import { Text } from "page/parts.js";
import { about, setClock } from "page/store.js";
import { Run } from "page/views/run.js";

/** @param {string} text in base64, of gzip @returns {Promise<any>} */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function App() {
  const { path } = useAddress();
  const { data } = embedded;
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header><b>Coterie</b><span class="live"><span class="state next">a file</span> made by coterie ${data.version}${data.lost && html`; without <${Text} text=${data.lost} />`}</span></header>
    <main id="main" tabindex="-1"><${Run} runKey=${data.key} view=${path[2] ?? ""} /></main>
    <${Keys} /><div id="announcer" class="unseen" role="status" aria-live="polite"></div><div id="alarm" class="unseen" role="alert"></div>`;
}

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
unpacked(document.getElementById("data")?.textContent ?? "").then((data) => {
  embedded.data = data;
  about.is_file = true;
  if (data.saved) setClock(data.saved, true);
  inHash(`/runs/${encodeURIComponent(data.key)}`);
  takeLinks();
  render(html`<${App} />`, place);
}, (error) => {
  place.textContent = `This browser cannot unpack the run: ${error.message}`;
});
