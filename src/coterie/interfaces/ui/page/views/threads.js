// Conversations over runs: the threads of the directory, and the messages of one.
import { html, useEffect } from "page/base.js";
import { go, runPath, threadPath, useAddress, withQuery } from "page/address.js";
import { Ago, Command, Empty, Problem, State, Text } from "page/parts.js";
import { useFetched, useTopic } from "page/store.js";
import { count, quoted } from "page/words.js";

/** A value of the server that is fetched again when a run has begun or ended. @param {string} path */
function useLatest(path) {
  const { state } = useTopic("home?limit=1");
  return useFetched(path, state && JSON.stringify(state.counts));
}

export function Threads() {
  const { value, problem } = useLatest("/api/threads");
  useEffect(() => {
    document.title = "Threads · Coterie";
  });
  return html`<h1>Threads</h1>${problem && html`<${Problem} text=${problem} />`}
    ${value?.length > 0 && html`<h2>In this directory · ${value.length}</h2><div class="rows">${value.map((/** @type {any} */ one) => html`<a key=${one.name} class="row" data-row href=${threadPath(one.name)}>
      <${State} state=${one.state} /><b class="cut"><${Text} text=${one.name} /></b><span class="cut quiet"><${Text} text=${one.prompt} /></span>
      <span class="cut"><${Text} text=${one.topology} /></span><span class="quiet">${count(one.runs, "run")}</span><span class="quiet"><${Ago} at=${one.at} /></span></a>`)}</div>`}
    ${value?.length === 0 && html`<${Empty}>No threads yet. Type <code>coterie chat FILE.at</code>, and a conversation appears here.<//>`}
    ${!value && !problem && html`<p class="quiet">Looking for threads …</p>`}`;
}

/** @param {{name: string}} given */
export function Thread({ name }) {
  const { query } = useAddress();
  const { value, problem } = useLatest(`/api/thread?name=${encodeURIComponent(name)}&limit=${query.get("limit") ?? ""}`);
  useEffect(() => {
    document.title = `${name} · Coterie`;
  });
  const left = value ? value.of - value.messages.length : 0;
  return html`<h1><${Text} text=${name} /></h1>${problem && html`<${Problem} text=${problem} />`}
    ${left > 0 && html`<p><button onClick=${() => go(withQuery({ limit: String(value.messages.length * 4) }), true)}>Show more of ${count(value.of, "message")}</button></p>`}
    ${value?.messages.map((/** @type {any} */ one) => html`<section key=${one.run} class="panel message" data-message aria-label=${`Message of run ${one.run}`}>
      <p class="actions"><${State} state=${one.state} /><a class="link" href=${runPath(one.key)}><${Text} text=${one.run} /></a><span class="quiet push"><${Ago} at=${one.at} /></span></p>
      <pre class="text" tabindex="0"><${Text} text=${one.prompt} /></pre>${one.answer && html`<pre class="text answer" tabindex="0"><${Text} text=${one.answer} /></pre>`}</section>`)}
    ${value && html`<p class="foot"><${Command} line=${`coterie thread show ${quoted(name)}${value.option}`} /></p>`}
    ${!value && !problem && html`<p class="quiet">Reading the thread …</p>`}`;
}
