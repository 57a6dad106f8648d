// A run that is in the file itself: what the server would answer, for the page that `coterie inspect RUN html` writes.

/** The data; null on a page of the server. @type {{data: any}} */
export const embedded = { data: null };

/** @param {string} name @returns {any} the state of a topic; null without one */
export function topicOf(name) {
  const { data } = embedded;
  if (name.startsWith("run/")) return data.state;
  if (!name.startsWith("output/")) return null;
  const turn = new URLSearchParams(name.slice(name.indexOf("?"))).get("turn") ?? "";
  return { events: data.outputs[turn] ?? [], cut: false };
}

/** @param {string} path @returns {{value: any, problem: string}} what the server would answer */
export function valueOf(path) {
  const { data } = embedded;
  const url = new URL(path, "http://file");
  const query = url.searchParams;
  const run = data.key + (query.get("run") ? `/${query.get("run")}` : "");
  const turn = query.get("turn") ?? "";
  /** @type {Record<string, () => any>} */ const answers = {
    turn: () => data.turns[turn],
    files: () => data.files[turn],
    cost: () => data.cost,
    failure: () => data.failure,
    record: () => data.records[run]?.[Number(query.get("seq")) - 1] ?? { error: `this file leaves out ${data.lost || "this record"}` },
    records: () => records(data.lines[run] ?? [], query),
  };
  const found = answers[url.pathname.split("/").at(-1) ?? ""]?.();
  if (found?.error) return { value: null, problem: found.error };
  return found === undefined ? { value: null, problem: "this file does not have it" } : { value: found, problem: "" };
}

/** @param {any[]} lines @param {URLSearchParams} query */
function records(lines, query) {
  const text = (query.get("q") ?? "").toLowerCase(), turn = query.get("turn") ?? "", topic = query.get("topic") ?? "";
  const fitting = lines.filter((one) => (!turn || one.turn === turn) && one.topic.startsWith(topic) && one.text.toLowerCase().includes(text));
  const from = Math.max(1, Number(query.get("from") ?? 1)), most = Number(query.get("limit") ?? 200);
  return { lines: fitting.slice(from - 1, from - 1 + most), of: fitting.length, topics: [...new Set(lines.map((one) => one.topic))].sort() };
}
