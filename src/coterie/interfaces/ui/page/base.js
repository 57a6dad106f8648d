// What every module builds on: templates and hooks, from the vendored libraries.
import { h, render, Component, Fragment } from "page/vendor/preact.js";
import htm from "page/vendor/htm.js";

export { render, Component, Fragment };
export {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId, useErrorBoundary,
} from "page/vendor/hooks.js";

/** Makes elements of a template; every text in it is text, never markup. */
export const html = htm.bind(h);
