"""Text for a rehearsal."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from coterie.base.ids import set_id, turn_id
from coterie.history.views.words import arrow, plural
from coterie.interfaces.cli.text.words import as_json, clock

_GLANCE = 60
"""Maximum length of an output that is shown; longer texts are cut, longer lists and objects only counted."""


def rehearsal(document: Mapping[str, Any]) -> str:
    """Return every turn of a rehearsal with times, triggers, outputs and arrows."""
    why = f", {document['reason']}" if document.get("reason") else ""
    return "\n".join([*_turns(document, ""), f"{document['outcome']}{why} (rehearsed: no backend was called)"])


def _turns(document: Mapping[str, Any], indent: str) -> Iterable[str]:
    for turn in sorted([*document.get("sets", ()), *document["turns"]], key=itemgetter("started")):
        yield from _rehearsed(turn, indent)
    if document["never_ran"]:
        yield f"{indent}never ran: {', '.join(document['never_ran'])}"


def _rehearsed(turn: Mapping[str, Any], indent: str) -> Iterable[str]:
    took = f"{clock(turn['started'])} – {clock(turn['finished']) if turn['finished'] is not None else 'open'}"
    marked_by = turn["marked_by"] or [event for event in [turn.get("event")] if event]
    marks = f" <- {', '.join(marked_by)}" if marked_by else ""
    name = turn_id(turn["agent"], turn["n"])
    if "items" in turn:
        name = f"{set_id(turn['agent'], turn['n'])}, {plural(turn['items'], 'item')}"
    elif "item" in turn:
        name += ", item {} of {}".format(*turn["item"])
    yield f"{indent}{took}  {name}{marks}"
    space = f"{indent}    "
    if failure := turn.get("failure"):
        yield f"{space}failed ({failure['kind']}): {failure['reason']}"
    if turn["outputs"]:
        yield space + ", ".join(_given(turn["outputs"]))
    if turn.get("emitted"):
        yield f"{space}emitted {', '.join(turn['emitted'])}"
    if turn.get("rejected"):
        yield f"{space}rejected: {', '.join(turn['rejected'])}"
    for source, targets in turn["fired"]:
        yield space + arrow((source, tuple(targets)))
    for source, targets in turn["exhausted"]:
        yield f"{space}{arrow((source, tuple(targets)))} has reached its bound"
    if turn["forced"]:
        source, targets = turn["forced"]
        yield f"{space}{arrow((source, tuple(targets)))} (forced)"
    if child := turn.get("child"):
        yield f"{space}child run: {child['outcome']}"
        yield from _turns(child, space)


def _given(outputs: Mapping[str, Any]) -> Iterable[str]:
    """Yield the outputs, with long texts cut, and the number of those that are omitted."""
    left_out = 0
    for name, value in outputs.items():
        shown = as_json(value)
        if len(shown) > _GLANCE and isinstance(value, str):
            shown = f"{shown[: _GLANCE - 1]}…"
        if value in (None, [], {}) or len(shown) > _GLANCE:
            left_out += 1
        else:
            yield f"{name} = {shown}"
    if left_out:
        yield f"{left_out} more"
