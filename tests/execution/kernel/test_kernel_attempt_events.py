"""The events of attempts reach all who subscribe, in order, and the attempt's file."""

import asyncio
import json
from pathlib import Path

from stage import Cast, Part, flow

from coterie.agents.backends.base import AttemptRef, Emitted, Event, Launched, OnEvent, Request, Text, Tool
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import AttemptEvents
from coterie.execution.runs import launch
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptLaunched

SAID: tuple[Event, ...] = (
    Launched(handle="there"),
    Text(text="Hm", channel="thinking"),
    Tool(name="ls"),
    Text(text="So"),
)


class Talkative(Cast):
    """Agents that do the same four things."""

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        for event in SAID:
            on_event(event)
        return await super().start(request, on_event)


def test_a_subscriber_sees_the_events_of_every_attempt_and_the_file_has_them(tmp_path: Path) -> None:
    """The file leaves out what the journal says."""
    seen: list[tuple[AttemptRef, Event]] = []

    def attach(shell: Shell) -> None:
        shell.events.subscribe(lambda ref, event: seen.append((ref, event)))

    turns = Talkative({}, seconds=0)
    asyncio.run(launch.start(flow("a -> b"), {}, state_dir=tmp_path, turns=turns, run_id="r", attach=attach))

    refs = [AttemptRef(run="r", turn=turn, attempt=1, epoch=1) for turn in ("a#1", "b#1")]
    assert seen == [(ref, event) for ref in refs for event in SAID]
    stream = (tmp_path / "runs/r/turns/a#1.1/stream.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in stream] == ["text", "tool", "text"]
    launched = [one for one in JsonlStore(tmp_path).read("r") if isinstance(one, AttemptLaunched)]
    assert [one.handle for one in launched] == ["there", "there"]


def test_who_unsubscribes_sees_no_more() -> None:
    """Also while an event is passed on; the others still see it."""
    events, ref, seen = AttemptEvents(), AttemptRef(run="r", turn="a#1", attempt=1, epoch=1), list[str]()
    stop = events.subscribe(lambda ref, event: (seen.append("first"), stop()))
    events.subscribe(lambda ref, event: seen.append("second"))
    for _ in range(2):
        events.publish(ref, Emitted(event="go"))
    assert seen == ["first", "second", "second"]
