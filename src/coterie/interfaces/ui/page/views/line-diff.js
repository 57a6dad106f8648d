// Which lines two texts have in common.

const MOST = 400_000; // cells of the table: larger texts are compared without what is in between

/**
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[string|null, string|null][]} a line of each, or null where only the other has one
 */
export function lineDiff(a, b) {
  let begin = 0, endA = a.length, endB = b.length;
  while (begin < endA && begin < endB && a[begin] === b[begin]) begin++;
  while (endA > begin && endB > begin && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  /** @type {[string|null, string|null][]} */ const rows = a.slice(0, begin).map((line) => [line, line]);
  const [n, m] = [endA - begin, endB - begin];
  if (n * m > MOST) {
    for (const line of a.slice(begin, endA)) rows.push([line, null]);
    for (const line of b.slice(begin, endB)) rows.push([null, line]);
  } else {
    const width = m + 1;
    const length = new Uint16Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        length[i * width + j] = a[begin + i] === b[begin + j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < n || j < m; ) {
      if (i < n && j < m && a[begin + i] === b[begin + j]) rows.push([a[begin + i++], b[begin + j++]]);
      else if (j >= m || (i < n && length[(i + 1) * width + j] >= length[i * width + j + 1])) rows.push([a[begin + i++], null]);
      else rows.push([null, b[begin + j++]]);
    }
  }
  for (const line of a.slice(endA)) rows.push([line, line]);
  return rows;
}
