// What needs a person, and the buttons that answer it.
import { html } from "../base.js";
import { runPath } from "../address.js";
import { Ago, Command, Text } from "../parts.js";

/** @param {{one: any}} given */
export function Attention({ one }) {
  const turn = one.turn ? `${one.run.split("/").slice(1).join("/")}${one.run.includes("/") ? "/" : ""}${one.turn}` : "";
  return html`<div class="ask" data-row tabindex="-1">
    <div class="actions"><span class="state wait">${one.kind}</span>
      <a href=${runPath(one.key, "", turn)}><b><${Text} text=${one.team || one.run} /></b></a> <${Text} text=${one.text} />
      <span class="quiet push">asked <${Ago} at=${one.since} />${one.due ? html` · ${one.policy} <${Ago} at=${one.due} />` : null}</span></div>
    <${Command} line=${one.command} /></div>`;
}
