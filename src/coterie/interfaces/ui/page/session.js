// The secret of this session: traded for the code in the address, kept for this tab and origin, shared with other tabs.

const KEY = "coterie.secret";
const channel = typeof BroadcastChannel === "function" ? new BroadcastChannel("coterie") : { postMessage: () => undefined, onmessage: null };
/** @type {Set<(secret: string) => void>} */
const listeners = new Set();

channel.onmessage = (/** @type {MessageEvent} */ event) => {
  const own = sessionStorage.getItem(KEY);
  if (event.data.ask && own && !event.data.not?.includes(own)) channel.postMessage({ secret: own });
  if (event.data.secret && event.data.secret !== own) {
    if (!own || event.data.fresh || refused.has(own)) keep(event.data.secret);
  }
};
/** @type {Set<string>} Secrets that the server no longer knows. */
const refused = new Set();

/** The secret, or an empty text. */
export const secret = () => sessionStorage.getItem(KEY) ?? "";

/** @param {(secret: string) => void} listener called with each new secret */
export function onSecret(listener) {
  listeners.add(listener);
}

/** @param {string} value */
function keep(value) {
  sessionStorage.setItem(KEY, value);
  for (const one of listeners) one(value);
}

/** Note that the server refuses the secret, and ask other tabs for a newer one. */
export function refuse() {
  const own = secret();
  if (own) refused.add(own);
  channel.postMessage({ ask: true, not: [...refused] });
}

/**
 * Begin the session: trade the code of the address, or take the secret of another tab.
 * @returns {Promise<string>} why there is none; empty if there is
 */
export async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    const response = await fetch("/api/session", {
      method: "POST",
      headers: { "content-type": "application/json", "x-coterie": "1" },
      body: JSON.stringify({ code }),
    });
    const found = await response.json();
    if (response.ok) {
      keep(found.secret);
      channel.postMessage({ secret: found.secret, fresh: true });
      return "";
    }
    if (!secret()) return found.error;
  }
  if (secret()) return "";
  channel.postMessage({ ask: true, not: [] });
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve("this page needs the address that `coterie ui` prints"), 400);
    onSecret(() => {
      clearTimeout(timer);
      resolve("");
    });
  });
}
