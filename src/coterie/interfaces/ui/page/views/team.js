// A team without a run: its graph, its agents, and what was found about them, again each time its file is saved.
import { html, useEffect, useRef, useState } from "page/base.js";
import { go, useAddress, withQuery } from "page/address.js";
import { announce, Ago, Command, Empty, Problem, Text } from "page/parts.js";
import { useTopic } from "page/store.js";
import { count, quoted, visible } from "page/words.js";
import { cut, Mark, Picture } from "page/views/plan.js";

const LOOKS = /** @type {Record<string, [string, string]>} */ ({ error: ["fail", "error"], warning: ["wait", "warning"], note: ["next", "note"] });

export function TeamFile() {
  const { query } = useAddress();
  const { state, problem } = useTopic("team");
  const node = query.get("node") ?? "";
  const choose = (/** @type {string} */ name) => go(withQuery({ node: name === node ? "" : name }), true);
  const said = useRef("");
  const summary = state ? verdict(state) : "";
  useEffect(() => {
    document.title = state ? `${state.name} · Coterie` : "Team · Coterie";
    if (said.current && said.current !== summary) announce(`Saved: ${summary}`);
    said.current = summary;
  }, [state, summary]);
  if (!state) return problem ? html`<${Problem} text=${problem} />` : html`<p class="quiet">Reading the file …</p>`;
  const shown = node ? state.findings.filter((/** @type {any} */ one) => one.nodes.includes(node)) : state.findings;
  const drawn = Object.keys(state.teams).length > 0;
  return html`<div class="actions"><h1><${Text} text=${state.name} /></h1><span class="state ${state.valid ? "done" : "fail"}">${state.valid ? "valid" : "cannot run"}</span>
      <code class="quiet cut"><${Text} text=${state.file} /></code></div>
    ${problem && html`<${Problem} text=${problem} />`}
    <${Proved} proof=${state.proof} />
    ${state.stale_since && html`<p class="state wait">the picture is that of <${Ago} at=${state.stale_since} />: the file as it is now cannot be drawn</p>`}
    <div class="two"><div>${drawn ? html`<div class="panel plan"><${Graph} state=${state} place="" node=${node} choose=${choose} /></div>` : html`<${Empty}>Nothing can be drawn yet: mend the errors, and the picture appears as the file is saved.<//>`}
        ${state.teams[""] && html`<${Agents} team=${state.teams[""]} findings=${state.findings} node=${node} choose=${choose} />`}</div>
      <section class="panel" aria-label="Findings"><div class="actions"><h2>Findings${node ? html` at <${Text} text=${node} />` : ""}</h2><span class="quiet">${shown.length}</span>
          ${node && html`<button class="small push" data-close onClick=${() => choose(node)}>show all ${state.findings.length}</button>`}</div>
        ${shown.length ? html`<ul class="findings">${shown.map((/** @type {any} */ one, /** @type {number} */ n) => html`<${Found} key=${`${one.code}${one.line}${n}`} one=${one} choose=${choose} />`)}</ul>` : html`<p class="quiet">Nothing was found${node ? " here" : ""}.</p>`}
        <p><${Command} line=${`coterie topology validate ${quoted(state.file)}`} /></p><p><${Command} line=${`coterie topology check ${quoted(state.file)}`} /></p>
        ${state.valid && html`<p><${Command} line=${`coterie run ${quoted(state.file)} --rehearse`} /></p>`}</section></div>`;
}

/** @param {any} state */
function verdict({ findings, valid }) {
  const of = (/** @type {string} */ severity) => findings.filter((/** @type {any} */ one) => one.severity === severity).length;
  return `${valid ? "valid" : "cannot run"}, ${count(of("error"), "error")}, ${count(of("warning"), "warning")}`;
}

/** @param {{proof: any}} given */
function Proved({ proof }) {
  if (!proof) return null;
  return html`<div class="facts"><div><span>every run ends</span><b>${proof.ends ? "proved" : "not proved"}</b></div>
    <div><span>at most</span><b>${proof.worst === null ? "no bound" : count(proof.worst, "turn")}</b></div>
    <div><span>at least</span><b>${proof.best === null || proof.best === undefined ? "unknown" : count(proof.best, "turn")}</b></div>
    <div><span>method</span><b>${proof.method === "exact" ? "every state explored" : "counted"}</b></div></div>`;
}

/** @param {{one: any, choose: (name: string) => void}} given */
function Found({ one, choose }) {
  const [look, word] = LOOKS[one.severity] ?? LOOKS.note;
  const place = one.line ? `${one.file.split("/").pop() || "line"}:${one.line}:${one.column}` : one.file.split("/").pop();
  return html`<li><div class="actions"><span class="state ${look}">${word}</span><code>${one.code}</code><span class="quiet">${one.source}${place ? ` · ${visible(place)}` : ""}</span></div>
    <p><${Text} text=${one.message} /></p>${one.hint && html`<p class="quiet"><${Text} text=${one.hint} /></p>`}
    ${one.nodes.length > 0 && html`<p class="nodes">${one.nodes.map((/** @type {string} */ name) => html`<button class="small" key=${name} onClick=${() => choose(name)}><${Text} text=${name} /></button> `)}</p>`}</li>`;
}

/** @param {{state: any, place: string, node: string, choose: (name: string) => void}} given */
function Graph({ state, place, node, choose }) {
  const [open, setOpen] = useState(/** @type {Record<string, boolean>} */ ({}));
  const team = state.teams[place];
  if (!team) return null;
  const nested = team.boxes.filter((/** @type {any} */ box) => box.nested);
  return html`<div class="team">${place && html`<h2>${visible(place)} · ${visible(team.name)}</h2>`}
    <${Picture} team=${team} label=${`The graph of ${team.name}`}>
      ${team.boxes.map((/** @type {any} */ box) => html`<${Box} key=${box.name} box=${box} findings=${place ? [] : state.findings} chosen=${!place && node === box.name} choose=${() => !place && choose(box.name)} />`)}<//>
    ${nested.length > 0 && html`<p class="actions">${nested.map((/** @type {any} */ box) => html`<button key=${box.name} class="small" aria-expanded=${Boolean(open[box.name])} onClick=${() => setOpen((now) => ({ ...now, [box.name]: !now[box.name] }))}>${open[box.name] ? "close" : "open"} the team of <${Text} text=${box.name} /></button>`)}</p>`}
    ${nested.filter((/** @type {any} */ box) => open[box.name]).map((/** @type {any} */ box) => html`<${Graph} key=${box.name} state=${state} place=${place ? `${place}/${box.name}` : box.name} node=${node} choose=${choose} />`)}</div>`;
}

/** @param {{box: any, findings: any[], chosen: boolean, choose: () => void}} given */
function Box({ box, findings, chosen, choose }) {
  const here = findings.filter((one) => one.nodes.includes(box.name));
  const worst = ["error", "warning", "note"].find((severity) => here.some((one) => one.severity === severity)) ?? "";
  const [look, word] = LOOKS[worst] ?? ["", ""];
  const mine = here.filter((one) => one.severity === worst).length;
  const note = worst && worst !== "note" ? count(mine, word) : box.note;
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  };
  const small = box.height < 44 ? 5 : 0;
  return html`<g><title>${visible([box.name, box.kind, box.note, ...box.about, ...here.map((one) => `${one.severity}: ${one.message}`)].join("\n"))}</title><g class="box ${worst === "note" ? "plain" : look || "plain"} ${chosen ? "chosen" : ""} ${box.kind}" role="button" tabindex="0" data-row data-node=${box.name} data-findings=${worst} aria-pressed=${chosen}
      aria-label=${visible(`${box.name}, ${note ? `${note}, ` : ""}${box.kind}${here.length ? `, ${count(here.length, "finding")}, worst ${word}` : ""}`)} onClick=${choose} onKeyDown=${keys}>
    <rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx=${box.kind === "human" ? box.height / 2 : 8} />
    <text class="name" x=${box.x + box.width / 2} y=${box.y + 20 - small}>${visible(cut(box.name, 44))}</text>${" "}
    <text class="note" x=${box.x + box.width / 2} y=${box.y + 36 - 1.6 * small}>${visible(cut(note, 40))}</text>
    ${worst && html`<${Mark} look=${look} x=${box.x + 11} y=${box.y + 11} />`}</g></g>`;
}

/** @param {{team: any, findings: any[], node: string, choose: (name: string) => void}} given */
function Agents({ team, findings, node, choose }) {
  return html`<section class="panel agents" aria-label="Agents"><h2>Agents · ${team.boxes.length}</h2><div class="scroll" tabindex="0" role="group" aria-label="Table of the agents"><table><thead><tr><th scope="col">name</th><th scope="col">kind</th><th scope="col">answers with</th><th scope="col">about</th><th scope="col" class="number">findings</th></tr></thead>
    <tbody>${team.boxes.map((/** @type {any} */ box) => html`<tr key=${box.name} class=${box.name === node ? "chosen" : ""}><th scope="row"><button class="plain" onClick=${() => choose(box.name)}><${Text} text=${box.name} /></button></th><td>${box.kind}${box.starts ? ", starts" : ""}</td><td><${Text} text=${box.note} /></td>
      <td class="about quiet">${box.about.map((/** @type {string} */ line, /** @type {number} */ n) => html`<div key=${n}><${Text} text=${line} /></div>`)}</td><td class="number">${findings.filter((one) => one.nodes.includes(box.name)).length}</td></tr>`)}</tbody></table></div></section>`;
}
