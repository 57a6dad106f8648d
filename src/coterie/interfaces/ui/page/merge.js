// States of topics and their changes: the browser's half of `coterie.history.views.live.merge`.

/**
 * @typedef {{[key: string]: any}} Row
 * @typedef {{[key: string]: any}} State
 */

/** Parts of a state that are tables: their changes are rows by key, and null removes one. */
const TABLES = new Set([
  "position", "runs", "teams", "nodes", "arrows", "stages", "turns", "actors", "attention", "here", "rows",
]);

/**
 * Merge `changes` into `state`, in place. The attention of the home page is a list, and is replaced.
 * @param {State} state
 * @param {State} changes
 */
export function merge(state, changes) {
  for (const [name, found] of Object.entries(changes)) {
    if (!TABLES.has(name) || Array.isArray(found)) {
      state[name] = found;
      continue;
    }
    const table = state[name] ?? (state[name] = {});
    for (const [key, row] of Object.entries(found)) {
      if (row === null) delete table[key];
      else table[key] = row;
    }
  }
}

/** The most events of an output that a page keeps; the agent's log has the rest. */
const MOST = 20000;

/**
 * Add events to the output of a turn, in place; one that begins anew replaces it.
 * @param {State} state
 * @param {{first: boolean, cut: boolean, events: any[]}} more
 */
export function append(state, more) {
  if (more.first || !state.events) {
    state.events = [];
    state.cut = more.cut;
  }
  for (const one of more.events) {
    const last = state.events[state.events.length - 1];
    const joins = last && one.event.kind === "text" && last.event.kind === "text"
      && last.attempt === one.attempt && last.event.channel === one.event.channel && last.event.text.length < 8000;
    if (joins) state.events[state.events.length - 1] = { ...last, event: { ...last.event, text: last.event.text + one.event.text } };
    else state.events.push(one);
  }
  if (state.events.length > MOST) {
    state.events.splice(0, state.events.length - MOST);
    state.cut = true;
  }
}
