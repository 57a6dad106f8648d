"""The extension with which every process of pi is started: it passes a provider's refusals on to the run.

The clients by which pi calls providers repeat a refused request by themselves, after the time that the provider names,
be it hours, and leave that time out of the error. With the extension a refusal ends the turn at once, and its text
begins with the time.
"""

NAME = "refusals.mjs"

SOURCE = """\
const MOST = 65536; // bytes of a refusal that are read
const fetchAnswer = globalThis.fetch;

function secondsToWait(headers) {
  const milliseconds = Number(headers.get("retry-after-ms") || NaN);
  if (milliseconds > 0) return milliseconds / 1000;
  const after = headers.get("retry-after") || "";
  const seconds = Number(after || NaN);
  return Number.isNaN(seconds) ? (Date.parse(after) - Date.now()) / 1000 : seconds;
}

async function beginningOf(response) {
  const pieces = [];
  let size = 0;
  const reader = response.body?.getReader();
  while (reader && size < MOST) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    size += value.length;
  }
  reader?.cancel().catch(() => {});
  return Buffer.concat(pieces).subarray(0, MOST).toString();
}

globalThis.fetch = async (address, options) => {
  const response = await fetchAnswer(address, options);
  const isModel = new Headers(options?.headers).has("x-stainless-lang");
  if (!isModel || response.status < 400) return response;
  const headers = new Headers(response.headers);
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  headers.set("x-should-retry", "false");
  const wait = secondsToWait(response.headers);
  const text = await beginningOf(response);
  const body = wait > 0 ? `retry after ${Math.ceil(wait)} s: ${text}` : text;
  return new Response(body, { status: response.status, statusText: response.statusText, headers });
};

export default function () {}
"""
