// The shared worker: one hub for all tabs of a browser. Its modules import each other by relative addresses, since the
// import map of a page does not apply to its workers.
import { Hub } from "./hub.js";

const hub = new Hub();
/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const port = event.ports[0];
  port.onmessage = (message) => hub.receive(port, message.data, (answer) => port.postMessage(answer));
};
