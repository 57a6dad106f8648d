// The dialog of a fork: it begins with an agent and its present prompt, and offers the input and the answers so far.

/** @typedef {import("page/actions.js").Field} Field */

/** A value as a person edits it: a text as it is, others as JSON. @param {any} value */
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** What was typed in place of `before`: a text if that is one, else JSON. @param {string} text @param {any} before */
function taken(text, before) {
  if (typeof before === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // the server says what it should be
  }
}

/**
 * A changed value has the name of its field; a field that was never shown, or has its first value, changes nothing.
 * @param {{turn?: string, at?: number|null, names?: string[]}} given `names`: the agent to begin with, the first that there is
 * @returns {import("page/actions.js").Plan}
 */
export const forking = ({ turn = "", at = null, names = [] }) => ({
  title: turn ? `Fork from ${turn}` : at ? `Fork from record ${at}` : "Fork the run", verb: "Fork", from: "values",
  fields: (values, base) => {
    const named = (/** @type {string} */ name) => base.agents.find((/** @type {any} */ one) => one.name === name);
    const chosen = [values.agent, ...names].map(named).find(Boolean) ?? base.agents[0];
    const answers = before(base, turn, at), answer = answers.find((one) => one.turn === values.answer);
    return /** @type {Field[]} */ ([
      chosen && { name: "agent", label: "Agent", type: "choice", values: base.agents.map((/** @type {any} */ one) => one.name), value: chosen.name, needed: true },
      chosen && chosen.prompt !== null && { name: `prompt ${chosen.name}`, label: `Prompt of ${chosen.name}`, type: "area", value: chosen.prompt },
      chosen && chosen.model !== null && { name: `model ${chosen.name}`, label: `Model of ${chosen.name}`, value: chosen.model, hint: chosen.model ? "" : "none is set" },
      ...Object.entries(base.input).map(([name, value]) => ({ name: `input ${name}`, label: name === "prompt" ? "Prompt of the run" : `Input ${name}`, type: "area", value: shown(value) })),
      answers.length && { name: "answer", label: "Change an answer", type: "choice", values: answers.map((one) => one.turn) },
      ...(!answer ? [] : Object.keys(answer.outputs).length ? Object.entries(answer.outputs).map(([name, value]) => ({ name: `output ${answer.turn} ${name}`, label: `${answer.turn}: ${name}`, value: shown(value) }))
        : [{ name: `text ${answer.turn}`, label: `Answer of ${answer.turn}`, type: "area", value: answer.text }]),
      { name: "go", label: "go on with the new run at once", type: "check", value: true },
    ].filter(Boolean));
  },
  action: (values, base) => {
    /** @type {Record<string, any>} */ const action = { do: "fork", turn, at, go: Boolean(values.go), prompts: {}, models: {}, input: {}, outputs: {} };
    for (const one of base.agents) {
      const prompt = values[`prompt ${one.name}`] ?? one.prompt, model = values[`model ${one.name}`] ?? one.model;
      if (prompt !== one.prompt) action.prompts[one.name] = prompt;
      if (model !== one.model) action.models[one.name] = model;
    }
    for (const [name, value] of Object.entries(base.input)) {
      const text = values[`input ${name}`] ?? shown(value);
      if (text !== shown(value)) action.input[name] = taken(text, value);
    }
    for (const one of before(base, turn, at)) {
      if ((values[`text ${one.turn}`] ?? one.text) !== one.text) action.outputs[one.turn] = values[`text ${one.turn}`];
      for (const [name, value] of Object.entries(one.outputs)) {
        const text = values[`output ${one.turn} ${name}`] ?? shown(value);
        if (text !== shown(value)) (action.outputs[one.turn] ??= {})[name] = taken(text, value);
      }
    }
    return action;
  },
});

/** The answers that are part of a fork from a turn, its own included, or at a record. @param {any} base @param {string} turn @param {number|null} at @returns {any[]} */
function before(base, turn, at) {
  const own = base.answers.find((/** @type {any} */ one) => one.turn === turn);
  const last = at ?? own?.seq ?? Infinity;
  return base.answers.filter((/** @type {any} */ one) => one.seq <= last);
}
