"""A node that the server hears no more: its agents end before others begin the same turns."""

import asyncio
from pathlib import Path

import pytest
from cluster_stage import MemoryExport, Server, node_of
from stage import Cast, flow
from tcp_gate import TcpGate
from until import soon

from coterie.agents.backends.base import Answer
from coterie.execution.cluster.submit import ended, submit
from coterie.history.journal.records import AttemptInterrupted, TurnFinished


@pytest.mark.slow
def test_the_turns_of_a_node_that_is_cut_off_are_lost(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It interrupts them while the server still waits for it, begins none meanwhile, and goes on when it is heard."""
    monkeypatch.setattr("coterie.execution.cluster.serve.LOOK_EVERY", 0.2)
    monkeypatch.setattr("coterie.execution.cluster.serve.CUT_OFF", 1.0)
    gate, said = TcpGate(f"tcp://{temporal_server.address}"), list[str]()
    export, run = MemoryExport(), tmp_path.name
    cast = Cast({"a": [Answer(text="never"), Answer(text="again")]}, seconds=600.0)

    async def main() -> None:
        async with node_of(temporal_server, export, cast, tmp_path, at=gate.place, tell=said.append) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            await soon(lambda: cast.running == 1)
            gate.close()
            await soon(lambda: cast.running == 0)
            assert len(cast.asked) == 1
            cast._seconds = 0.0
            gate.open()
            assert (await asyncio.wait_for(ended(client, run), 60)).status == "completed"

    asyncio.run(main())
    gate.end()
    records = [one for _, one in asyncio.run(export.load(run))]
    assert [(one.turn, one.reason) for one in records if isinstance(one, AttemptInterrupted)] == [("a#1", "lost")]
    assert next((one.turn, one.text) for one in records if isinstance(one, TurnFinished)) == ("a#1", "again")
    assert said == [
        "the server does not answer; this node waits for it",
        "its turns are interrupted: other nodes may have them by now",
        "the server answers again",
    ]
