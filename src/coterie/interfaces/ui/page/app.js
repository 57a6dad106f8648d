// The page: its head, and the view that the address names.
import { html, render, useEffect, useErrorBoundary } from "page/base.js";
import { go, here, takeLinks, useAddress, withQuery } from "page/address.js";
import { Problem, Typed, Unknown } from "page/parts.js";
import { begin } from "page/session.js";
import { ActionPlace } from "page/actions.js";
import { Keys } from "page/keys.js";
import { about, api, connect, serverNow, serverTime, setClock, useStatus } from "page/store.js";
import { clock } from "page/words.js";
import { Compare } from "page/views/compare.js";
import { Home } from "page/views/home.js";
import { Run } from "page/views/run.js";
import { TeamFile } from "page/views/team.js";
import { Thread, Threads } from "page/views/threads.js";

function App() {
  const { path, query } = useAddress();
  const [first = "", key = "", view = ""] = path;
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header><a class="brand" href="/"><b>Coterie</b></a>
      <nav aria-label="Page"><a href="/" aria-current=${first === "" ? "page" : null}>Runs</a><a href="/threads" aria-current=${first === "threads" ? "page" : null}>Threads</a>
        ${about.team && html`<a href="/team" aria-current=${first === "team" ? "page" : null}>Team</a>`}</nav>
      <${Search} query=${query.get("q") ?? ""} isHome=${first === ""} /><${Live} /></header>
    <main id="main" tabindex="-1"><${Guarded} place=${here().pathname}>${
      first === "runs" && key && path.length <= 3 ? html`<${Run} key=${key} runKey=${key} view=${view} />` : first === "threads" && path.length === 2 ? html`<${Thread} key=${key} name=${key} />` : path.length > 1 ? html`<${Unknown} />` : first === "compare" ? html`<${Compare} />`
        : first === "team" ? html`<${TeamFile} />` : first === "threads" ? html`<${Threads} />` : first === "" || first === "runs" ? html`<${Home} />` : html`<${Unknown} />`}<//></main>
    <${Keys} /><${ActionPlace} /><div id="announcer" class="unseen" role="status" aria-live="polite"></div><div id="alarm" class="unseen" role="alert"></div>`;
}

/** @param {{query: string, isHome: boolean}} given */
function Search({ query, isHome }) {
  const set = (/** @type {string} */ q) => go(isHome ? withQuery({ q, limit: "" }) : `/?q=${encodeURIComponent(q)}`, isHome);
  return html`<${Typed} value=${query} set=${set} label="Search runs" id="search" placeholder="Search runs, teams, prompts   /" />`;
}

/** Whether what is shown is live, and if not since when. */
function Live() {
  const { staleSince, refused, began } = useStatus();
  if (refused) return html`<span class="live" role="alert"><span class="state fail">session over</span> run <code>coterie ui</code> again</span>`;
  if (staleSince) return html`<span class="live" role="alert"><span class="state wait">not connected since ${clock(serverTime(staleSince), serverNow())}</span></span>`;
  return html`<span class="live"><span class="state ${began ? "done" : "next"}">${began ? "live" : "connecting"}</span></span>`;
}

/** Shows why a view failed, and keeps the rest of the page; at another place it tries again. @param {{place: string, children?: any}} given */
function Guarded({ place, children }) {
  const [error, reset] = useErrorBoundary((found) => console.error(found));
  useEffect(() => {
    if (error) reset();
  }, [place]);
  if (error) return html`<${Problem} text=${`this view failed: ${error.message}; please report it as a bug`} />`;
  return children;
}

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
begin().then(async (problem) => {
  if (!problem) connect(); // the worker begins while the server is asked what it is
  const found = problem ? null : await api("/api/about").catch((error) => void (problem = error.message));
  if (found) Object.assign(about, found), setClock(found.now);
  if (problem) {
    render(html`<main><h1>Coterie</h1><${Problem} text=${problem} /><p>Type <code>coterie ui</code>, or press Enter in its terminal for a new address.</p></main>`, place);
    return;
  }
  takeLinks();
  render(html`<${App} />`, place);
});
