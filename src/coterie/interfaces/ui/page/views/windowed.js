// A list of rows of one height: only those that are on the screen are in the document, however many there are.
import { html, useEffect, useLayoutEffect, useRef, useState } from "page/base.js";

const AROUND = 8; // rows above and below those on the screen, so that a key press finds the next one

/**
 * @param {object} given
 * @param {number} given.count
 * @param {number} given.height of a row, in pixels
 * @param {(n: number) => any} [given.keyOf] what a row is about: the focus stays with it while others come before it
 * @param {(n: number) => any} given.row makes the row; its element gets `place(n)` from here around it
 * @param {string} given.label
 * @param {string} [given.role] of the list; its rows have `rowRole`
 * @param {string} [given.rowRole]
 * @param {(n: number) => Record<string, any>} [given.attributes] of the element of a row
 * @param {(n: number) => void} [given.choose] a click, or Enter
 * @param {(n: number, event: KeyboardEvent) => void} [given.onKey] another key in a row
 * @param {number} [given.shown] the row to bring into view when this changes; -1: none
 * @param {(first: number, last: number) => void} [given.onRange] which rows are in the document
 * @param {boolean} [given.atEnd] stay at the end while rows are added there
 */
export function Windowed({ count, height, keyOf = (n) => n, row, label, role = "list", rowRole = "listitem", attributes, choose, onKey, shown = -1, onRange, atEnd = false }) {
  const box = useRef(/** @type {any} */ (null));
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(400);
  const held = useRef(/** @type {{n: number, key: any}} */ ({ n: -1, key: null }));
  const [, again] = useState(0);
  const setFocused = (/** @type {number} */ n) => {
    held.current = { n, key: keyOf(n) };
    again((k) => k + 1);
  };
  const { n: was, key } = held.current;
  if (was >= 0 && (was >= count || keyOf(was) !== key)) {
    let n = 0;
    while (n < count && keyOf(n) !== key) n++;
    held.current.n = n < count ? n : -1;
  }
  const focused = held.current.n;
  const wasAtEnd = useRef(true);
  const began = useRef(0);
  useLayoutEffect(() => {
    return watch(box.current, (one) => setRoom(one.clientHeight || 400));
  }, []);
  useLayoutEffect(() => {
    if (shown < 0 || !box.current) return;
    const { scrollTop, clientHeight } = box.current;
    if (shown * height < scrollTop || (shown + 1) * height > scrollTop + clientHeight) box.current.scrollTop = shown * height - clientHeight / 3;
  }, [shown]);
  useLayoutEffect(() => {
    if (atEnd && wasAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count, room]);
  const first = Math.max(0, Math.min(count - 1, Math.floor(top / height)) - AROUND);
  const last = Math.min(count, Math.ceil((top + room) / height) + AROUND);
  useEffect(() => onRange?.(first, last), [first, last, count]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    wasAtEnd.current = scrollHeight - scrollTop - clientHeight < height;
    setTop(scrollTop);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const afterG = Date.now() - began.current < 1200; // `g r` leads to another view
    began.current = event.key === "g" ? Date.now() : 0;
    if (afterG) return;
    const n = Number(/** @type {HTMLElement} */ (event.target).dataset.n ?? -1);
    if (n < 0) return;
    const page = Math.max(1, Math.floor(room / height) - 1);
    const to = { ArrowDown: n + 1, j: n + 1, ArrowUp: n - 1, k: n - 1, PageDown: n + page, PageUp: n - page, Home: 0, End: count - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      focus(Math.max(0, Math.min(count - 1, to)));
    } else if (event.key === "Enter" && choose) {
      event.preventDefault();
      event.stopPropagation();
      choose(n);
    } else onKey?.(n, event);
  };
  const focus = (/** @type {number} */ n) => {
    setFocused(n);
    const { scrollTop, clientHeight } = box.current;
    if (n * height < scrollTop) box.current.scrollTop = n * height;
    else if ((n + 1) * height > scrollTop + clientHeight) box.current.scrollTop = (n + 1) * height - clientHeight;
    setTop(box.current.scrollTop);
    const take = () => box.current?.querySelector(`[data-n="${n}"]`)?.focus({ preventScroll: true });
    if (n >= first && n < last) take();
    else requestAnimationFrame(() => requestAnimationFrame(take)); // once it is in the document
  };
  const places = [];
  for (let n = first; n < last; n++) places.push(n);
  if (focused >= 0 && focused < count && (focused < first || focused >= last)) places.push(focused); // the focus must not be lost
  const stop = focused >= 0 && focused < count ? focused : shown >= first && shown < last ? shown : first;
  return html`<div class="windowed" ref=${box} onScroll=${scrolled} onKeyDown=${keys} role=${role} aria-label=${label} tabindex="-1" style=${{ maxHeight: "var(--tall)", height: `${count * height + 2}px` }}>
    <div class="whole" role="presentation" style=${{ height: `${count * height}px` }}>${places.map((n) => html`<div key=${keyOf(n)} class="line" data-row data-n=${n} role=${rowRole} tabindex=${n === stop ? 0 : -1}
      aria-setsize=${count} aria-posinset=${n + 1} style=${{ top: `${n * height}px`, height: `${height}px` }} onFocus=${() => setFocused(n)}
      onClick=${choose && (() => choose(n))} ...${attributes?.(n)}>${row(n)}</div>`)}</div></div>`;
}

/** The width of an element, again when it changes. @returns {[any, number]} the reference for it, and its width */
export function useWidth() {
  const box = useRef(/** @type {any} */ (null));
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    return watch(box.current, (one) => set(one.clientWidth));
  }, []);
  return [box, width];
}

/** Call `take` now, and in the frame after each change of size, which may change it again. @param {HTMLElement} element @param {(element: HTMLElement) => void} take */
function watch(element, take) {
  let frame = 0;
  const watched = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => take(element));
  });
  take(element);
  watched.observe(element);
  return () => {
    cancelAnimationFrame(frame);
    watched.disconnect();
  };
}
