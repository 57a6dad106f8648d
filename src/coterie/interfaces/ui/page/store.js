// What this tab shows, and its newest state: topics of the stream, and values that are fetched once.
import { useEffect, useMemo, useState } from "page/base.js";
import { embedded, topicOf, valueOf } from "page/embedded.js";
import { append, merge } from "page/merge.js";
import { onSecret, refuse, secret } from "page/session.js";

/**
 * @typedef {object} Topic
 * @property {any} state null until it came
 * @property {number} version grows with each change
 * @property {string} problem why it cannot be shown
 * @property {boolean} gone it will not come back
 */

/** @type {Map<string, Topic>} */
const topics = new Map();
/** @type {Map<string, Set<() => void>>} */
const readers = new Map();
/** @type {Set<() => void>} */
const onStatus = new Set();
/** The state of the stream: since when it is stale (0: it is not), and whether the session is over. */
export const status = { staleSince: 0, refused: false, began: false };

/** What is known of the server. @type {{read_only: boolean, is_file?: boolean, version: string, homes: string[], cwd: string, team?: string}} */
export const about = { read_only: true, version: "", homes: [], cwd: "", team: "" };

/** Seconds that the clock of the server is ahead of this browser's; in a saved file, the time stands still. */
const clockOf = { ahead: 0, stands: 0 };

/** The time of the server now, in Unix seconds. */
export const serverNow = () => clockOf.stands || serverTime(Date.now());

/** The time of the server, in Unix seconds, when this browser's clock showed `at`, in milliseconds. @param {number} at */
export const serverTime = (at) => at / 1000 + clockOf.ahead;

/** @param {number} now the time of the server @param {boolean} [stands] whether it stays there */
export function setClock(now, stands = false) {
  Object.assign(clockOf, { ahead: now - Date.now() / 1000, stands: stands ? now : 0 });
}

/** @type {(message: any) => void} */
let send = () => undefined;
let framed = 0;
/** @type {Set<string>} */
const dirty = new Set();

const BEAT = 5_000; // milliseconds between two signs of life

/** Connect this tab with the hub. */
export function connect() {
  attach();
  onSecret(() => {
    status.refused = false;
    begin();
    changedStatus();
  });
  let asked = 0;
  const beat = () => {
    if (document.hidden) return;
    if (heard < asked && Date.now() - asked > BEAT / 2) attach(); // the process of the worker has ended, as with the tab that it was begun in
    asked = Date.now();
    send({ do: "here" });
  };
  document.addEventListener("visibilitychange", () => {
    rewatch();
    beat();
  });
  addEventListener("pagehide", () => send({ do: "bye" }));
  addEventListener("pageshow", (event) => event.persisted && begin());
  setInterval(beat, BEAT);
}

/** When the hub was heard last. */
let heard = 0;
let detach = () => {};

function attach() {
  detach();
  const hear = (/** @type {any} */ message) => {
    heard = Date.now();
    take(message);
  };
  if (typeof SharedWorker === "function") {
    const { port } = new SharedWorker("/worker.js", { type: "module", name: "coterie" });
    port.onmessage = (event) => hear(event.data);
    send = (message) => port.postMessage(message);
    detach = () => port.close();
    begin();
    return;
  }
  import("./hub.js").then(({ Hub }) => {
    const hub = new Hub();
    send = (message) => hub.receive("tab", message, (answer) => hear(structuredClone(answer)));
    begin();
  });
}

function begin() {
  send({ do: "session", secret: secret() });
  rewatch();
}

/** Tell the hub what this tab shows; a hidden one shows nothing. */
function rewatch() {
  send({ do: "watch", topics: document.hidden ? [] : [...readers.keys()] });
}

/** @param {any} message of the hub */
function take(message) {
  if (message.kind === "here") return;
  if (message.kind === "refused" && secret() && message.secret !== secret()) { // the hub had an older one, of another tab
    send({ do: "session", secret: secret() });
    return;
  }
  if (message.kind === "stale" || message.kind === "live" || message.kind === "refused") {
    status.staleSince = message.kind === "live" ? 0 : message.since ?? (status.staleSince || Date.now());
    status.refused = message.kind === "refused";
    status.began ||= message.kind === "live";
    if (status.refused) refuse();
    changedStatus();
    return;
  }
  const topic = topics.get(message.topic);
  if (!topic) return;
  if (message.kind === "problem") {
    topic.problem = message.data.error;
    topic.gone = Boolean(message.data.gone);
  } else {
    topic.problem = "";
    if (message.kind === "output") append((topic.state ??= {}), message.data);
    else if (message.kind === "state") topic.state = message.text ? JSON.parse(message.text).data : message.data;
    else if (topic.state) merge(topic.state, message.data);
  }
  topic.version += 1;
  dirty.add(message.topic);
  if (!framed) framed = requestAnimationFrame(show);
}

function show() {
  framed = 0;
  for (const name of [...dirty]) for (const one of readers.get(name) ?? []) one();
  dirty.clear();
}

function changedStatus() {
  for (const one of onStatus) one();
}

/** @returns {typeof status} */
export function useStatus() {
  const [, again] = useState(0);
  useEffect(() => {
    const one = () => again((n) => n + 1);
    onStatus.add(one);
    one(); // it may have changed since this was rendered
    return () => void onStatus.delete(one);
  }, []);
  return status;
}

/**
 * The newest state of a topic.
 * @param {string} name empty: none
 * @returns {Topic}
 */
export function useTopic(name) {
  const [, again] = useState(0);
  if (name && !topics.has(name) && embedded.data) topics.set(name, { state: topicOf(name), version: 1, problem: "", gone: false });
  if (name && !topics.has(name)) topics.set(name, { state: null, version: 0, problem: "", gone: false });
  useEffect(() => {
    if (!name) return undefined;
    const one = () => again((n) => n + 1);
    const all = readers.get(name) ?? new Set();
    all.add(one);
    readers.set(name, all);
    one(); // it may have come since this was rendered
    rewatch();
    return () => {
      all.delete(one);
      if (all.size) return;
      readers.delete(name);
      rewatch();
      setTimeout(() => readers.has(name) || topics.delete(name), 30_000);
    };
  }, [name]);
  return topics.get(name) ?? { state: null, version: 0, problem: "", gone: false };
}

export class ApiError extends Error {}

/**
 * Ask the server.
 * @param {string} path
 * @param {any} [body] sent by POST
 * @returns {Promise<any>}
 */
export async function api(path, body) {
  if (embedded.data) {
    const { value, problem } = valueOf(path);
    if (problem) throw new ApiError(problem);
    return value;
  }
  const used = secret();
  /** @type {Record<string, string>} */ const headers = { authorization: `Bearer ${used}` };
  if (body !== undefined) Object.assign(headers, { "content-type": "application/json", "x-coterie": "1" });
  let response;
  try {
    response = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new ApiError("the server does not answer: is `coterie ui` still running?");
  }
  const value = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (response.status === 401 && used === secret()) { // else a newer one has come meanwhile
    status.refused = true;
    refuse();
    changedStatus();
  }
  if (!response.ok) throw new ApiError(value.error);
  return value;
}

/**
 * A value that is fetched, and again when `sign` changes; the earlier one is shown until then.
 * @param {string} path empty: nothing
 * @param {any} [sign]
 * @returns {{value: any, problem: string, path: string}}
 */
export function useFetched(path, sign) {
  const [found, set] = useState(/** @type {{value: any, problem: string, path: string}} */ ({ value: null, problem: "", path: "" }));
  useEffect(() => {
    if (!path || embedded.data) return undefined;
    let left = false;
    api(path).then(
      (value) => left || set({ value, problem: "", path }),
      (error) => left || set((now) => ({ value: now.path === path ? now.value : null, problem: error.message, path })),
    );
    return () => {
      left = true;
    };
  }, [path, sign]);
  const given = useMemo(() => (embedded.data && path ? { ...valueOf(path), path } : null), [path]);
  if (given) return given;
  return found.path === path ? found : { value: null, problem: "", path };
}
