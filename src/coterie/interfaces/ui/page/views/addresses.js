// Turns by their address in the root run: `writer#2`, `polish#1.1/writer#1`.

/** @param {string} root @param {string} run @param {string} id of a turn of it @returns {string} */
export const addressOf = (root, run, id) => (run === root ? id : `${run.slice(root.length + 1)}/${id}`);

/** Of which agent a row is, by its path: `polish/writer`. @param {any} state @param {any} row of a turn */
export function pathOf(state, row) {
  const place = state.runs[row.run]?.place;
  return place ? `${place}/${row.agent}` : row.agent;
}
