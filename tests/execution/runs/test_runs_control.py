"""What waits for a run that nobody drives, and who waits for a run that is about to be let go."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundles import bundle
from msgspec.structs import replace
from posted import send
from stage import Cast, flow

from coterie.execution.runs import control, launch
from coterie.execution.runs.messages import RunMessage, answer, guidance, unread
from coterie.execution.runs.repository import Runs
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import OperatorSaid, Record, RunOwned, RunStarted
from coterie.team.planning.plan import AgentPlan

STOP, OWNED = OperatorSaid(message="m", what="stop"), RunOwned(epoch=1)


@bundle(
    ("records", "waits"),
    [
        ((OWNED, STOP), True),
        ((OWNED, STOP, OperatorSaid(message="n", what="guide")), True),
        ((OWNED, OperatorSaid(message="n", what="guide")), False),
        ((OWNED, STOP, RunOwned(epoch=2)), False),
    ],
)
def test_a_stop_that_was_accepted_is_waited_for(records: tuple[Record, ...], waits: bool) -> None:
    """Only one of this owner: a later one was not stopped, and a run without an owner is not waited for."""
    looks = [True, True, True, False]

    def run(*owned: bool) -> Any:
        left = list(owned)
        return SimpleNamespace(
            is_owned=lambda run: left.pop(0), read=lambda run: iter((RunStarted(run="r", engine="flow"), *records))
        ), left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.execution.runs.control.LOOK_EVERY", 0.0)
        runs, left = run(*looks)
        control.await_stop(runs, "r")
        assert left == ([] if waits else looks[1:])
        runs, left = run(False)
        control.await_stop(runs, "r")
        assert left == []


@pytest.fixture
def parked(tmp_path: Path) -> Path:
    """The folder of a run that is parked for a person."""
    plan = flow("a -> boss", boss=AgentPlan(name="boss", kind="human", backend="human"))
    asyncio.run(launch.start(plan, {}, state_dir=tmp_path, park=True, turns=Cast({}, seconds=0), run_id="r"))
    return tmp_path / "runs" / "r"


def waiting(folder: Path) -> list[str]:
    return [one.text or one.event for _, one in unread(folder / "inbox")]


def test_an_operators_message_that_is_repeated_while_it_waits_is_the_same(parked: Path) -> None:
    """What differs in anything, an agent's message, and what no operator has signed, are others."""
    for text in ("be brief", "be brief", "be long"):
        assert send(parked, guidance(text)).status == "queued"
    assert send(parked, guidance("be brief", "a#1")).status == "queued"
    assert sorted(waiting(parked)) == ["be brief", "be brief", "be long"]

    for path, _ in list(unread(parked / "inbox")):
        path.unlink()
    send(parked, first := guidance("be brief"))
    [(path, signed)] = unread(parked / "inbox")
    path.write_bytes(path.read_bytes().replace(signed.token.encode(), b"forged"))
    send(parked, guidance("be brief"))
    assert waiting(parked) == ["be brief", "be brief"]
    assert first.id in [one.id for _, one in unread(parked / "inbox")]


def test_what_operators_sent_can_be_withdrawn_while_no_owner_has_the_run(parked: Path) -> None:
    """Not what agents sent, and nothing that an owner may have read."""
    runs = Runs(parked.parents[1])
    emit = RunMessage(id="e", kind="emit", turn="a#1", attempt=1, epoch=1, event="done")
    send(parked, guidance("be brief"))
    send(parked, replace(emit, token="one"))
    owner = RunLock("r", parked / "lock")
    refused = control.withdraw(runs, "r")
    assert (refused.status, sorted(waiting(parked))) == ("refused", ["be brief", "done"])
    owner.release()

    send(parked, answer("", "yes"))
    assert control.withdraw(runs, "r").detail == "2 removed from its inbox"
    assert waiting(parked) == ["done"]
    assert control.withdraw(runs, "r").status == "refused"
    RunLock("r", parked / "lock").release()


def test_an_agent_withdraws_nothing(parked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send(parked, guidance("be brief"))
    monkeypatch.setattr("coterie.execution.runs.authority.marks_of", lambda: ("r/a#1.1",))
    assert control.withdraw(Runs(parked.parents[1]), "r").status == "refused"
    assert waiting(parked) == ["be brief"]
