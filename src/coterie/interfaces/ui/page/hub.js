// The one stream of a browser: what its tabs show is fetched once, merged here, and passed on to each.
//
// It runs in a shared worker, and where there is none in the page itself. A topic that no tab shows any more is kept for
// a while with its last id, so that a tab that comes back gets only what changed.
import { append, merge } from "./merge.js";

/**
 * @typedef {{state: any, id: string, left: number, problem: any}} Topic
 * @typedef {{post: (message: any) => void, topics: Set<string>, seen: number}} Tab
 */

const KEPT = 8; // topics without a tab
const SILENT = 90_000; // milliseconds after which a tab counts as gone
const WAITS = [300, 700, 1500, 3000, 5000]; // between two tries to reach the server

export class Hub {
  constructor() {
    /** @type {Map<any, Tab>} */ this.tabs = new Map();
    /** @type {Map<string, Topic>} */ this.topics = new Map();
    this.secret = "";
    /** @type {AbortController|null} */ this.reading = null;
    this.open = "";
    this.tries = 0;
    this.staleSince = 0;
    this.isLive = false;
    /** @type {any} */ this.timer = 0;
    setInterval(() => this.sweep(), 30_000);
  }

  /** @param {any} key @param {any} message @param {(message: any) => void} post */
  receive(key, message, post) {
    if (message.do === "bye") {
      this.tabs.delete(key);
    } else {
      const tab = this.tabs.get(key) ?? { post, topics: new Set(), seen: 0 };
      if (!this.tabs.has(key) && this.isLive) post({ kind: "live" });
      tab.seen = Date.now();
      this.tabs.set(key, tab);
      if (message.do === "session" && message.secret !== this.secret) {
        this.secret = message.secret;
        this.open = "";
      }
      if (message.do === "here") post({ kind: "here" });
      if (message.do === "watch") this.watch(tab, new Set(message.topics));
    }
    this.plan(5);
  }

  /** @param {Tab} tab @param {Set<string>} topics */
  watch(tab, topics) {
    for (const name of topics) {
      const topic = this.topics.get(name);
      if (tab.topics.has(name) || !topic) continue;
      if (topic.state) tab.post({ topic: name, kind: "state", id: topic.id, data: topic.state });
      if (topic.problem) tab.post({ topic: name, kind: "problem", id: topic.id, data: topic.problem });
    }
    tab.topics = topics;
  }

  /** The topics that tabs show. */
  wanted() {
    return new Set([...this.tabs.values()].flatMap((tab) => [...tab.topics]));
  }

  sweep() {
    for (const [key, tab] of this.tabs) if (Date.now() - tab.seen > SILENT) this.tabs.delete(key);
    this.plan(0);
  }

  /** @param {number} wait */
  plan(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  connect() {
    const names = [...this.wanted()].sort();
    const open = JSON.stringify(names);
    if (open === this.open && this.reading) return;
    this.open = open;
    this.reading?.abort();
    this.reading = null;
    const idle = [...this.topics].filter(([name]) => !names.includes(name)).sort((a, b) => b[1].left - a[1].left);
    for (const [name] of idle.slice(KEPT)) this.topics.delete(name);
    if (!names.length || !this.secret) return;
    /** @type {Record<string, string>} */ const topics = {};
    for (const name of names) {
      const known = this.topics.get(name) ?? { state: null, id: "", left: 0, problem: null };
      known.left = Date.now();
      this.topics.set(name, known);
      topics[name] = known.state ? known.id : "";
    }
    const reading = (this.reading = new AbortController());
    this.read(topics, reading).catch(() => undefined).finally(() => {
      if (this.reading !== reading) return;
      this.reading = null;
      this.isLive = false;
      this.staleSince ||= Date.now();
      this.tell({ kind: "stale", since: this.staleSince });
      this.plan(WAITS[Math.min(this.tries++, WAITS.length - 1)]);
    });
  }

  /** @param {Record<string, string>} topics @param {AbortController} reading */
  async read(topics, reading) {
    const { secret } = this;
    const isOld = () => this.reading !== reading; // another stream has begun: what comes here was asked for before it
    const response = await fetch("/api/stream", {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json", "x-coterie": "1" },
      body: JSON.stringify({ topics }),
      signal: reading.signal,
    });
    if (isOld()) return;
    if (response.status === 401) {
      if (secret !== this.secret) return; // a newer one has come
      this.secret = "";
      this.tell({ kind: "refused", secret });
      return;
    }
    if (!response.ok || !response.body) return;
    this.tries = 0;
    this.staleSince = 0;
    this.isLive = true;
    this.tell({ kind: "live" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    /** @type {string[]} */ let rest = []; // parts of an event that has not come whole
    for (;;) {
      const { done, value } = await reader.read();
      if (done || isOld()) return;
      rest.push(value);
      if (!value.includes("\n")) continue; // the state of a long run comes in many parts
      const parts = rest.join("").split("\n\n");
      rest = parts.splice(-1);
      for (const part of parts) this.take(part);
    }
  }

  /** @param {string} part an event as `text/event-stream` has it */
  take(part) {
    let kind = "", id = "", text = "";
    for (const line of part.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("data: ")) text = line.slice(6);
    }
    if (!text) return;
    const name = JSON.parse(/^{"topic":("(?:[^"\\]|\\.)*")/.exec(text)?.[1] ?? '""');
    const topic = this.topics.get(name);
    if (!topic) return;
    const readers = [...this.tabs.values()].filter((tab) => tab.topics.has(name));
    if (kind === "state") for (const tab of readers) tab.post({ topic: name, kind, id, text }); // parsed there, which is quicker than a copy
    const { data } = JSON.parse(text);
    if (kind === "state") topic.state = data;
    else if (kind === "changes" && topic.state) merge(topic.state, data);
    else if (kind === "output") append((topic.state ??= {}), data);
    topic.problem = kind === "problem" ? data : null;
    if (kind !== "problem") topic.id = id;
    if (kind !== "state") for (const tab of readers) tab.post({ topic: name, kind, id, data });
  }

  /** @param {any} message */
  tell(message) {
    for (const tab of this.tabs.values()) tab.post(message);
  }
}
