// The address of the page: which view is shown of what, with what selected. All of it can be copied and opened again.
import { useEffect, useState } from "./base.js";

/** @type {Set<() => void>} */
const listeners = new Set();
addEventListener("popstate", () => listeners.forEach((one) => one()));

/** @param {string} to @param {boolean} [replace] */
export function go(to, replace = false) {
  if (to === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  listeners.forEach((one) => one());
}

/**
 * This address with other values in its query; an empty one is removed.
 * @param {Record<string, string>} values
 * @param {string} [path]
 */
export function withQuery(values, path = location.pathname) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  return path + (text ? `?${text}` : "");
}

/** @returns {{path: string[], query: URLSearchParams}} */
export function useAddress() {
  const [, again] = useState(0);
  useEffect(() => {
    const one = () => again((n) => n + 1);
    listeners.add(one);
    return () => void listeners.delete(one);
  }, []);
  return { path: location.pathname.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(location.search) };
}

/** Let links of the page change the address without loading it again. */
export function takeLinks() {
  document.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || event.defaultPrevented) return;
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** @param {string} key @param {string} [view] @param {string} [turn] the address of a turn */
export const runPath = (key, view = "", turn = "") =>
  `/runs/${encodeURIComponent(key)}${view ? `/${view}` : ""}${turn ? `?turn=${encodeURIComponent(turn)}` : ""}`;
