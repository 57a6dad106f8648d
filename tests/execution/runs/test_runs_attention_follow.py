"""What needs a person is listed and followed by another process, across owners that die."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import coterie
from coterie.base.ids import child_run_id
from coterie.execution.runs import attention
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttentionAsked, Record, RunOwned, RunStarted, TurnStarted
from coterie.history.journal.runs import Journal
from coterie.history.journal.writer import JsonlWriter


def begun(run: str, *turns: str, epoch: int = 1, parent: str = "") -> list[Record]:
    """The first records of *run*, whose *turns* have started."""
    records: list[Record] = [RunStarted(run=run, engine="flow", parent=parent), RunOwned(epoch=epoch)]
    return records + [TurnStarted(turn=turn, agent=turn.partition("#")[0], cause=(1, 0)) for turn in turns]


def asks(number: int = 1, **fields: object) -> AttentionAsked:
    wish = {"kind": "permission", "tool": "Bash", "detail": "make", "policy": "deny"} | fields
    return AttentionAsked(id=f"a#1?{number}", turn="a#1", attempt=number, question=f"q{number}", **wish)  # type: ignore[arg-type]


def append(writer: JsonlWriter, records: list[Record]) -> None:
    """Append *records* with their numbers and the time."""
    for record in records:
        writer.append([replace(record, seq=writer.last + 1, at=time.time())])
    writer.begin()
    writer.flush()


def test_what_a_dead_owner_was_asked_is_not_open_under_the_next_one(tmp_path: Path) -> None:
    """The next one may not have said yet that it owns the run; what its own attempts ask is open."""

    async def main() -> list[list[str]]:
        store = JsonlStore(tmp_path, poll=0)
        followed, seen = attention._Followed(Runs(tmp_path, poll=0), "r"), list[list[str]]()

        async def until(holds: Callable[[], object]) -> None:
            async with asyncio.timeout(60):
                while not holds():
                    await asyncio.sleep(0)
                    followed.check()
            seen.append([one.id for one in followed.open])

        first = store.claim("r")
        append(first, [*begun("r", "a#1"), asks(), asks(2, kind="stall")])
        await until(lambda: followed.open)
        first.give_up()
        followed.check()
        second = store.claim("r")
        followed.check()
        seen.append([one.id for one in followed.open])
        append(second, [asks(3)])
        await until(lambda: followed.open)
        followed.stop()
        second.give_up()
        return seen

    assert asyncio.run(main()) == [["a#1?1", "a#1?2"], [], ["a#1?3"]]


def test_a_child_run_lists_what_is_in_it_only(tmp_path: Path) -> None:
    """Not what is in the tenth attempt of the same turn."""
    store = JsonlStore(tmp_path)
    children = ("inner#1.1", "inner#1.10")
    root = store.claim("r")
    started = [TurnStarted(turn="inner#1", agent="inner", attempt=number, cause=(1, 0)) for number in (1, 10)]
    append(root, [*begun("r"), *started])
    writers = [store.claim(child_run_id("r", "inner#1", number)) for number in (1, 10)]
    for writer, child in zip(writers, children, strict=True):
        append(writer, [*begun(f"r/{child}", "a#1", parent="r"), asks()])
    runs = Runs(tmp_path)

    found = {run: [one.id for one in attention.open_in(runs, run)] for run in ("r", *(f"r/{one}" for one in children))}
    assert found == {"r": ["inner#1.10/a#1?1"], "r/inner#1.1": [], "r/inner#1.10": ["inner#1.10/a#1?1"]}
    assert attention.open_in(runs, "r/inner#1") == []
    for writer in (*writers, root):
        writer.give_up()


def test_the_questions_of_a_run_are_found_with_one_look_at_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own text; of a thousand, none is found by folding the whole journal again."""
    read, journal = list[str](), Runs.journal

    def counted(self: Runs, run: str) -> Journal:
        read.append(run)
        return journal(self, run)

    team = coterie.flow("ask", [coterie.human(f"h{n}", f"Publish {n}?") for n in range(20)])
    asyncio.run(coterie.run(team, "tea", state_dir=tmp_path))
    monkeypatch.setattr(Runs, "journal", counted)
    found = list(attention.find(tmp_path))

    assert len(found) == 20
    assert all(f"asks: Publish {one.turn[1:-2]}?" in one.text for one in found), found
    assert len(read) == 1
