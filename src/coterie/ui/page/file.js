// The page of one run in one file: the same views, without a server and without actions.
import { html, render } from "./base.js";
import { inHash, takeLinks, useAddress } from "./address.js";
import { embedded } from "./embedded.js";
import { Keys } from "./keys.js";
import { Text } from "./parts.js";
import { about } from "./store.js";
import { Run } from "./views/run.js";

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
    <${Keys} /><div id="announcer" class="unseen" role="status" aria-live="polite"></div>`;
}

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
unpacked(document.getElementById("data")?.textContent ?? "").then((data) => {
  embedded.data = data;
  about.is_file = true;
  inHash(`/runs/${encodeURIComponent(data.key)}`);
  takeLinks();
  render(html`<${App} />`, place);
}, (error) => {
  place.textContent = `This browser cannot unpack the run: ${error.message}`;
});
