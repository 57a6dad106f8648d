"""What Temporal's own page shows of a run: team and prompt, what runs now, and attributes to search by."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from coterie.base.escapes import printable
from coterie.history.journal.records import Record, TurnCancelled, TurnFailed, TurnFinished, TurnStarted
from coterie.team.planning.plan import Plan

TEAM, PROJECT, STATE = (SearchAttributeKey.for_keyword(f"Coterie{name}") for name in ("Team", "Project", "State"))
_SUMMARY, _PROMPT = 390, 100
"""Bytes of a summary, of which the server takes 400, and of a prompt in it."""
_NAME = 200
"""Bytes of the value of an attribute."""
_TURNS = 20
"""Turns that are named."""


async def register(client: Client) -> None:
    """Have the namespace know the attributes, if this client may; else an operator of the server can add them."""
    kind = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    for key in (TEAM, PROJECT, STATE):
        wanted = AddSearchAttributesRequest(namespace=client.namespace, search_attributes={key.name: kind})
        try:
            await client.operator_service.add_search_attributes(wanted)
        except RPCError:  # it is known already, or this client may not
            continue


async def attributes(client: Client, plan: Plan, folder: Path | None) -> TypedSearchAttributes | None:
    """The attributes of a run of *plan*, submitted from *folder*; None if the namespace does not know them."""
    try:
        asked = ListSearchAttributesRequest(namespace=client.namespace)
        known = (await client.operator_service.list_search_attributes(asked)).custom_attributes
    except RPCError:
        return None
    if not {TEAM.name, PROJECT.name, STATE.name} <= set(known):
        return None
    named = [SearchAttributePair(TEAM, _line(plan.name, _NAME)), SearchAttributePair(STATE, "running")]
    place = [SearchAttributePair(PROJECT, _line(folder.name, _NAME))] if folder is not None else []
    return TypedSearchAttributes([*named, *place])


def summary(plan: Plan, given: Mapping[str, Any]) -> str:
    """The team and the beginning of the prompt, in a line."""
    name, shown = _line(plan.name, _SUMMARY - _PROMPT), _line(str(given.get("prompt", "")), _PROMPT)
    return f"{name}: {shown}" if shown else name


def _line(text: str, most: int) -> str:
    """*text* as one line of valid text, of *most* bytes at most."""
    line = printable(" ".join(text.split()).encode(errors="replace").decode()).encode()
    return line.decode() if len(line) <= most else line[: most - 3].decode(errors="ignore") + "…"


class RunDetails:
    """What of a run goes on now, as text, below its *summary*: the server keeps that for the first link only."""

    def __init__(self, summary: str) -> None:
        self._summary = summary
        self._running: dict[tuple[str, str], None] = {}
        self._ended = 0

    def take(self, run: str, record: Record) -> bool:
        """Take a record in; whether the text may have changed."""
        match record:
            case TurnStarted(turn=turn):
                self._running[run, turn] = None
            case TurnFinished(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                self._running.pop((run, turn), None)
                self._ended += 1
            case _:
                return False
        return True

    def __str__(self) -> str:
        names = ["/".join(filter(None, [run.partition("/")[2], turn])) for run, turn in self._running]
        more = f" and {len(names) - _TURNS} more" if len(names) > _TURNS else ""
        running = printable(", ".join(names[:_TURNS])) or "none"
        return f"{self._summary}\n\n{self._ended} turns ended here; running: {running}{more}"
