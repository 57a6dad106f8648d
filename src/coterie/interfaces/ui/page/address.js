// The address of the page: which view is shown of what, with what selected. All of it can be copied and opened again.
import { useEffect, useState } from "page/base.js";

/** @type {Set<() => void>} */
const listeners = new Set();
const changed = () => listeners.forEach((one) => one());
addEventListener("popstate", changed);
addEventListener("hashchange", changed);

/** The address to begin with, if all of it is behind the `#`, as in a page that is a file; empty elsewhere. */
let first = "";

/** Keep the address behind the `#`. @param {string} start */
export function inHash(start) {
  first = start;
}

/** Where the page is. @returns {{pathname: string, search: string}} */
export function here() {
  if (!first) return location;
  const [pathname, search = ""] = (location.hash.startsWith("#/") ? location.hash.slice(1) : first).split("?");
  return { pathname, search: search ? `?${search}` : "" };
}

/** @param {string} to @param {boolean} [replace] */
export function go(to, replace = false) {
  const { pathname, search } = here();
  if (to === pathname + search) return;
  const url = first ? `#${to}` : to;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  changed();
}

/**
 * This address with other values in its query; an empty one is removed.
 * @param {Record<string, string>} values
 * @param {string} [path]
 */
export function withQuery(values, path = here().pathname) {
  const query = new URLSearchParams(here().search);
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  return path + (text ? `?${text}` : "");
}

/** A part of an address; one that is no valid escape as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @returns {{path: string[], query: URLSearchParams}} */
export function useAddress() {
  const [, again] = useState(0);
  useEffect(() => {
    const one = () => again((n) => n + 1);
    listeners.add(one);
    return () => void listeners.delete(one);
  }, []);
  const { pathname, search } = here();
  return { path: pathname.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}

/** Let links of the page change the address without loading it again. */
export function takeLinks() {
  document.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest?.("a[href]");
    const to = link?.getAttribute("href") ?? "";
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || event.defaultPrevented) return;
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (!to.startsWith("/") && !to.startsWith("?")) return;
    event.preventDefault();
    go(to.startsWith("?") ? here().pathname + to : to);
  });
}

/** @param {string} name */
export const threadPath = (name) => `/threads/${encodeURIComponent(name)}`;

/** @param {string} key @param {string} [view] @param {string} [turn] the address of a turn */
export const runPath = (key, view = "", turn = "") =>
  `/runs/${encodeURIComponent(key)}${view ? `/${view}` : ""}${turn ? `?turn=${encodeURIComponent(turn)}` : ""}`;
