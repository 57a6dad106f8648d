// The plan with the run on it: every node from the start, counts, arrows that fired, nested teams in place.
import { html, useState } from "page/base.js";
import { System } from "page/views/system.js";
import { useWidth } from "page/views/windowed.js";
import { duration, grouped, money, stateWords, visible } from "page/words.js";

/** @param {[number, number][]} points through which a curve passes, vertical in each */
function curve(points) {
  let [[x, y]] = points;
  let path = `M${x} ${y}`;
  for (const [toX, toY] of points.slice(1)) {
    const middle = (y + toY) / 2;
    path += Math.abs(x - toX) < 0.05 ? `V${toY}` : `C${x} ${middle} ${toX} ${middle} ${toX} ${toY}`;
    [x, y] = [toX, toY];
  }
  return path;
}

/** @param {[number, number][]} points the corners of a polyline, which are rounded */
function corners(points) {
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let k = 1; k < points.length - 1; k++) {
    const [before, at, behind] = [points[k - 1], points[k], points[k + 1]];
    const far = (/** @type {number[]} */ a, /** @type {number[]} */ b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);
    const radius = Math.min(14, far(before, at) / 2, far(at, behind) / 2);
    const towards = (/** @type {number[]} */ to) => {
      const part = far(at, to) ? radius / far(at, to) : 0;
      return `${at[0] + (to[0] - at[0]) * part} ${at[1] + (to[1] - at[1]) * part}`;
    };
    path += `L${towards(before)}Q${at[0]} ${at[1]} ${towards(behind)}`;
  }
  const last = points[points.length - 1];
  return `${path}L${last[0]} ${last[1]}`;
}

/** @param {{state: any, turn: string, select: (turn: string) => void}} given */
export function Plan({ state, turn, select }) {
  const root = state.here.run.run;
  if (state.runs[root].kind === "system") return html`<${System} state=${state} turn=${turn} select=${select} />`;
  return html`<div class="panel plan"><${Team} state=${state} run=${root} place="" turn=${turn} select=${select} root=${root} /></div>`;
}

/** @param {{state: any, run: string, place: string, turn: string, select: (turn: string) => void, root: string}} given */
function Team({ state, run, place, turn, select, root }) {
  const [open, setOpen] = useState(/** @type {Record<string, boolean>} */ ({}));
  const team = state.teams[place];
  if (!team) return null;
  const below = run === root ? "" : `${run.slice(root.length + 1)}/`;
  return html`<div class="team">
    ${place && html`<h2><${TeamName} team=${team} place=${place} /></h2>`}
    <${Picture} team=${team} label=${`The plan of ${team.name}`} rowOf=${(/** @type {any} */ one) => state.arrows[`${run}/${one.index}`]}>
      ${team.boxes.map((/** @type {any} */ box) => html`<${Box} key=${box.name} box=${box} node=${state.nodes[`${run}/${box.name}`]} state=${state} run=${run} below=${below}
        chosen=${turn} select=${select} toggle=${() => setOpen((now) => ({ ...now, [box.name]: !now[box.name] }))} isOpen=${open[box.name]} />`)}
    <//>
    ${team.boxes.filter((/** @type {any} */ box) => box.nested && open[box.name]).map((/** @type {any} */ box) => {
      const node = state.nodes[`${run}/${box.name}`];
      const child = node?.turn ? state.turns[`${run}/${node.turn}`]?.children.at(-1) ?? `${run}/${node.turn}.1` : `${run}/${box.name}`;
      return html`<${Team} key=${box.name} state=${state} run=${child} place=${place ? `${place}/${box.name}` : box.name} turn=${turn} select=${select} root=${root} />`;
    })}</div>`;
}

const LEAST = 0.6; // a picture that is smaller can no longer be read: it is scrolled

/**
 * The picture of a team: its arrows, with its boxes on them. It fits its place until it is zoomed.
 * @param {{team: any, label: string, rowOf?: (arrow: any) => any, children?: any}} given
 */
export function Picture({ team, label, rowOf = () => null, children }) {
  const [box, room] = useWidth();
  const [zoom, setZoom] = useState(0); // 0: as it fits
  const wide = Math.max(team.width, ...team.arrows.map((/** @type {any} */ one) => rightOf(one, rowOf(one)))) + 12, high = team.height + 28;
  const fits = room ? Math.min(1, Math.max(LEAST, room / wide)) : 1;
  const scale = zoom || fits;
  const by = (/** @type {number} */ factor) => setZoom(Math.min(3, Math.max(0.2, scale * factor)));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const done = { "+": () => by(1.25), "-": () => by(0.8), 0: () => setZoom(0) }[event.key];
    if (!done || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    done();
  };
  const sentence = team.arrows.map((/** @type {any} */ one) => `${one.source} leads to ${one.target}${one.label ? `, ${one.label}` : ""}`).join("; ");
  return html`<div class="picture" ref=${box} onKeyDown=${keys}>
    <div class="zoom" role="group" aria-label="Zoom"><button class="small" aria-label="Smaller" onClick=${() => by(0.8)}>−</button><button class="small" aria-label=${`${Math.round(100 * scale)} %, fit the picture`} aria-pressed=${!zoom} onClick=${() => setZoom(0)}>${Math.round(100 * scale)} %</button><button class="small" aria-label="Larger" onClick=${() => by(1.25)}>+</button></div>
    <div class="scroll" tabindex="0" role="group" aria-label=${visible(label)}><svg viewBox="-6 -6 ${wide} ${high}" width=${wide * scale} height=${high * scale} role="group" aria-label=${visible(`${team.name}: ${sentence}`)}>
      <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0.5 8 4 0 7.5z" fill="context-stroke"/></marker></defs>
      ${team.arrows.map((/** @type {any} */ one) => html`<${Arrow} key=${one.index} arrow=${one} row=${rowOf(one)} />`)}${children}</svg></div></div>`;
}

/** @param {{team: any, place: string}} given */
const TeamName = ({ team, place }) => html`${visible(place)} · ${visible(team.name)}`;

/** How often an arrow fired, of how often at most. @param {any} arrow @param {any} row */
function boundOf(arrow, row) {
  const fired = row?.fired ?? 0;
  return arrow.max ? `${fired} of ${arrow.max}` : fired > 1 ? `× ${fired}` : "";
}

/** @param {any} arrow @param {any} row */
const labelOf = (arrow, row) => [arrow.max ? arrow.label.replace(/,? ?max \d+$/, "") : arrow.label, boundOf(arrow, row)].filter(Boolean).join(" · ");

const LONGEST = 44; // letters of a label, as `svg.py` cuts them

/** The place of a label as it is shown, which may be longer than in the file. @param {any} arrow @param {any} row @returns {{text: string, x: number, width: number}|null} */
function labelAt(arrow, row) {
  if (!arrow.label_at) return null;
  const text = cut(visible(labelOf(arrow, row)), LONGEST), [x, , room] = arrow.label_at;
  const width = Math.max(room, 6.1 * text.length + 8);
  return { text, width, x: arrow.back ? x : x + (room - width) / 2 }; // beside its line, or over it with nothing below
}

/** @param {any} arrow @param {any} row */
function rightOf(arrow, row) {
  const at = labelAt(arrow, row);
  return at ? at.x + at.width : 0;
}

/** @param {{arrow: any, row: any}} given */
function Arrow({ arrow, row }) {
  const fired = row?.fired ?? 0;
  const bound = boundOf(arrow, row);
  const label = labelOf(arrow, row);
  const at = labelAt(arrow, row), y = arrow.label_at?.[1] ?? 0;
  const words = `${arrow.source} to ${arrow.target}${label ? `: ${label}` : ""}, ${fired ? `fired ${fired === 1 ? "once" : `${fired} times`}` : "has not fired"}${row?.spent ? ", its bound is spent" : ""}`;
  return html`<g class="arrow ${fired ? "fired" : ""} ${arrow.back ? "back" : ""} ${row?.spent ? "spent" : ""}"><title>${visible(words)}</title>
    <path d=${arrow.back ? corners(arrow.points) : curve(arrow.points)} marker-end="url(#tip)"/>
    ${at && html`<rect class="under" x=${at.x} y=${y} width=${at.width} height=${arrow.label_at[3]} /><text class="label" x=${at.x + at.width / 2} y=${y + 12}>${at.text}</text>`}
    ${!at && bound && html`<text class="label" x=${arrow.points[0][0] + 6} y=${arrow.points[0][1] + 12} style=${{ textAnchor: "start" }}>${bound}</text>`}</g>`;
}

/** @param {{box: any, node: any, state: any, run: string, below: string, chosen: string, select: (turn: string) => void, toggle: () => void, isOpen: boolean}} given */
function Box({ box, node, state, run, below, chosen, select, toggle, isOpen }) {
  const [look, word] = stateWords(node?.state ?? "pending");
  const turn = node?.turn ? state.turns[`${run}/${node.turn}`] : null;
  const name = `${box.name}${(node?.starts ?? 0) > 1 && !node.items ? ` ×${node.starts}` : ""}`;
  const took = turn?.finished && !node.items ? duration(turn.finished - turn.started) : "";
  const facts = [node?.items ? setWords(node) : word, took, node?.cost ? money(node.cost) : ""].filter(Boolean).join(" · ");
  const address = node?.turn ? below + (turn?.set || node.turn) : "";
  const isChosen = address !== "" && (chosen === address || chosen.startsWith(`${address}.`));
  const choose = () => address && select(address);
  const middle = box.x + box.width / 2;
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose();
    }
  };
  return html`<g><title>${visible([box.name, box.kind, box.note, ...box.about].join("\n"))}</title><g class="box ${look} ${isChosen ? "chosen" : ""} ${box.kind}" role="button" tabindex="0" data-row data-node=${box.name} aria-pressed=${isChosen}
      aria-label=${visible(`${name}, ${facts}${node?.items ? `, ${node.open.length} open, ${word}` : ""}`)} onClick=${choose} onKeyDown=${keys}>
    <rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx=${box.kind === "human" ? box.height / 2 : 8} />
    <text class="name" x=${middle} y=${box.y + 20}>${visible(cut(name, 44))}</text>${" "}
    <text class="note" x=${middle} y=${box.y + 36}>${visible(node?.items && 5.6 * facts.length > box.width - 12 ? doneOf(node) : cut(facts, 40))}</text>
    ${node?.items ? html`<${Shares} node=${node} box=${box} />` : null}
    <${Mark} look=${look} x=${box.x + 11} y=${box.y + 11} /></g>
    ${box.nested && html`<g class="nest" role="button" tabindex="0" aria-expanded=${Boolean(isOpen)} aria-label=${`Open the team of ${visible(box.name)}`}
      onClick=${toggle}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } }}>
      <rect x=${box.x + box.width - 20} y=${box.y + box.height - 9} width="18" height="18" rx="4" /><text class="name" x=${box.x + box.width - 11} y=${box.y + box.height + 4}>${isOpen ? "−" : "+"}</text></g>`}</g>`;
}

/** `180 of 200 done, 20 failed`: the items of the sets of a node. @param {any} node */
export const setWords = (node) => `${doneOf(node)}${node.failed ? `, ${grouped(node.failed)} failed` : ""}`;

/** @param {any} node */
const doneOf = (node) => `${grouped(node.finished)} of ${grouped(node.items)} done`;

/** The items of a node as parts of a bar; its words stand above it. @param {{node: any, box: any}} given */
function Shares({ node, box }) {
  let x = box.x + 10;
  const wide = box.width - 20;
  return html`<g aria-hidden="true">${[["done", node.finished], ["fail", node.failed], ["work", node.open.length], ["next", node.left]].map(([look, n]) => {
    const width = (wide * Number(n)) / Math.max(node.items, node.finished + node.failed + node.open.length), from = x;
    x += width;
    return html`<path key=${look} class="share-of ${look}" d="M${from} ${box.y + box.height - 6}h${width}" />`;
  })}</g>`;
}

/** The mark of a state: its shape says it without its colour. @param {{look: string, x: number, y: number}} given */
export function Mark({ look, x, y }) {
  switch (look) {
    case "done": return html`<circle class="mark" cx=${x} cy=${y} r="4"/>`;
    case "work": return html`<circle class="mark hollow" cx=${x} cy=${y} r="3.5" stroke-dasharray="15 7"/>`;
    case "wait": return html`<rect class="mark" x=${x - 3.5} y=${y - 3.5} width="7" height="7"/>`;
    case "fail": return html`<path class="mark" d="M${x} ${y - 5}l5 5-5 5-5-5z"/>`;
    default: return html`<circle class="mark hollow" cx=${x} cy=${y} r="3.5" stroke-dasharray="2 2"/>`;
  }
}

/** @param {string} text @param {number} most */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
