"""Rows follow their runs: behind them, completely, and in nobody's way."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import rows_stage as stage
from msgspec import structs
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from coterie.agents.backends.base import Answer, Request, Result
from coterie.errors import NoSuchRun, RowsFailed, UsageError
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import MessageSent, Record
from coterie.history.journal.runs import history
from coterie.patterns.identity import execution_id, message_id
from coterie.patterns.rows.engine import open_engine, url_of
from coterie.patterns.rows.fold import LET_GO
from coterie.patterns.rows.projection import MOST, Projection, project
from coterie.patterns.rows.tables import upgrade
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan

NewDatabase = Callable[[], str]
ASKED = {"question": "Is it so?"}


def records(plan: Plan, given: dict[str, Any] = ASKED) -> list[tuple[str, Record]]:
    """Those of a whole run."""
    store = MemoryStore()
    asyncio.run(stage.play(plan, given, store=store))
    return list(history(store.read, "r"))


def records_of(run: str) -> list[tuple[str, Record]]:
    """Those of a short debate."""
    store = MemoryStore()
    asyncio.run(stage.play(stage.debate(rounds=1), ASKED, run=run, store=store))
    return list(history(store.read, run))


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


async def written(url: str, news: list[tuple[str, Record]]) -> dict[str, Any]:
    """The rows of *news*, observed one by one, as they are in the database."""
    async with Projection(url) as rows:
        for run, record in news:
            rows.observe(run, record)
    return await stage.contents(url)


def test_a_run_that_is_observed_has_its_rows(new_database: NewDatabase) -> None:
    """All of it, once the projection is closed; agents and topology too, by name."""
    url = new_database()

    async def main() -> dict[str, Any]:
        async with Projection(url) as rows:
            await stage.play(stage.debate("My debate"), ASKED, observe=rows.observe)
        return await stage.contents(url, "topologies", "agent_types", "topology_memberships", *stage.WRITTEN)

    found = asyncio.run(main())
    [execution] = found["executions"].values()

    assert (execution["topology_id"], execution["status"]) == ("my-debate", "completed")
    assert execution["output_data"]["rounds"] == 2
    assert {row["name"] for row in found["agent_types"].values()} == {
        "my-debate-proponent",
        "my-debate-opponent",
        "my-debate-mediator",
    }
    members = sorted((row["position"], row["slot_name"]) for row in found["topology_memberships"].values())
    assert members == [(0, "proponent"), (1, "opponent"), (2, "mediator")]
    assert sorted(row["sequence_number"] for row in found["messages"].values()) == list(range(1, 9))
    assert len(found["results"]) == 5


def test_both_kinds_of_database_get_the_same_rows(new_sqlite: NewDatabase, bare_postgres: NewDatabase) -> None:
    """Ids, times and JSON included; a projection makes the tables itself."""
    news = records(stage.team("compound", first=stage.debate("first", 1), second=stage.debate("second", 1)))
    lite, post = new_sqlite(), bare_postgres()

    assert asyncio.run(written(lite, news)) == asyncio.run(written(post, news))


def test_what_is_written_again_changes_nothing(new_database: NewDatabase) -> None:
    """Observed twice, and told from the journal besides."""
    store, url = MemoryStore(), new_database()
    asyncio.run(stage.play(stage.debate(), ASKED, store=store))
    news = list(history(store.read, "r"))

    async def main() -> tuple[dict[str, Any], ...]:
        once = await written(url, news)
        twice = await written(url, [*news, *news])
        async with Projection(url) as rows:
            await rows.project("r", store.read)
        return once, twice, await stage.contents(url)

    once, twice, thrice = asyncio.run(main())
    assert once == twice == thrice


def test_rows_that_a_crash_left_behind_are_told_again(new_sqlite: NewDatabase) -> None:
    """What was written, with the rest from the journal, is what there would have been: after every second record."""
    store = MemoryStore()
    asyncio.run(stage.play(stage.debate(rounds=1), ASKED, store=store))
    news = list(history(store.read, "r"))
    whole = asyncio.run(written(new_sqlite(), news))

    async def crashed_after(n: int, url: str) -> tuple[set[str], dict[str, Any]]:
        engine = open_engine(url)
        rows = Projection(engine)
        for run, record in news[:n]:
            rows.observe(run, record)
        await rows.flush()
        await engine.dispose()  # and never closed
        between = await stage.contents(url, "executions")
        async with Projection(url) as rows:
            await rows.project("r", store.read)
        return {row["status"] for row in between["executions"].values()}, await stage.contents(url)

    for n in range(len(news), 0, -2):
        left, after = asyncio.run(crashed_after(n, new_sqlite()))
        assert left == {"completed" if n == len(news) else "running"}
        assert after == whole, n


def test_two_runs_in_one_file_do_not_wait_for_each_other(new_sqlite: NewDatabase) -> None:
    """While an agent of the first thinks, the second runs from its beginning to its end, rows included."""
    url = new_sqlite()

    async def main() -> list[dict[str, Any]]:
        over = asyncio.Event()
        seen: list[dict[str, Any]] = []

        async def slow(request: Request) -> Result:
            await over.wait()
            return Answer(text="at last")

        async def other() -> None:
            async with Projection(url) as rows:
                await stage.play(stage.debate("other"), ASKED, run="other", observe=rows.observe)
            seen.append(await stage.contents(url, "executions"))
            over.set()

        async with asyncio.timeout(60), Projection(url) as rows, asyncio.TaskGroup() as group:
            first = stage.play(stage.debate("first"), ASKED, run="first", says=slow, observe=rows.observe)
            running = group.create_task(first)
            await asyncio.sleep(0)
            await rows.flush()
            await other()
            await running
        return [*seen, await stage.contents(url, "executions")]

    meanwhile, after = (
        {row["topology_id"]: row["status"] for row in found["executions"].values()} for found in asyncio.run(main())
    )
    assert meanwhile == {"first": "running", "other": "completed"}
    assert after == {"first": "completed", "other": "completed"}


def test_no_transaction_is_open_while_an_agent_is_asked(new_sqlite: NewDatabase) -> None:
    """Another writer that does not wait a moment gets through, at every call."""
    url, calls = new_sqlite(), []

    async def main() -> None:
        rows = Projection(url)

        async def says(request: Request) -> Result:
            await rows.flush()  # what came before this call is written
            other = sqlite3.connect(path_of(url), timeout=0, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE executions SET correlation_id = 'seen'")
            calls.append(other.execute("SELECT count(*) FROM executions").fetchone()[0])
            other.execute("COMMIT")
            other.close()
            return Answer(text="fine")

        async with rows:
            await stage.play(stage.debate(), ASKED, says=says, observe=rows.observe)

    asyncio.run(main())
    assert calls == [1] * 5


@pytest.mark.parametrize("many", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_many_writers_share_one_database(many: int, new_database: NewDatabase) -> None:
    """Each with a projection of its own, all at once, under one definition."""
    url = new_database()

    async def one(n: int) -> None:
        async with Projection(url) as rows:
            await stage.play(stage.debate(rounds=1), ASKED, run=f"run-{n}", observe=rows.observe)

    async def main() -> dict[str, Any]:
        await asyncio.gather(*(one(n) for n in range(many)))
        return await stage.contents(url, "topologies", *stage.WRITTEN)

    found = asyncio.run(main())
    assert [row["name"] for row in found["topologies"].values()] == ["debate"]
    assert [row["status"] for row in found["executions"].values()] == ["completed"] * many
    assert {name: len(rows) for name, rows in found.items()} == {
        "topologies": 1,
        "executions": many,
        "agent_instances": 3 * many,
        "messages": 4 * many,
        "results": 3 * many,
    }


def test_writers_that_share_one_connection_wait_for_each_other() -> None:
    """As all do whose database is in memory."""

    async def main() -> list[Any]:
        engine = create_async_engine("sqlite+aiosqlite://")
        await upgrade(engine)

        async def one(n: int) -> None:
            async with Projection(engine, linger=0) as rows:
                await stage.play(stage.debate(rounds=1), ASKED, run=f"run-{n}", observe=rows.observe)

        await asyncio.gather(*(one(n) for n in range(10)))
        async with engine.connect() as connection:
            found = await connection.execute(text("SELECT status FROM executions"))
            results = await connection.execute(text("SELECT count(*) FROM results"))
            counted = [[status for (status,) in found], results.scalar()]
        await engine.dispose()
        return counted

    assert asyncio.run(main()) == [["completed"] * 10, 30]


def test_much_at_once_is_written_in_several_transactions(new_sqlite: NewDatabase) -> None:
    """None of them longer than the others wait for; together they are all."""
    url = new_sqlite()
    members = [f"ensemble_{n}" for n in range(10)]
    plan = stage.team("ensemble", *members, config={"samples": 80, "aggregation_method": "concat"})
    news, sizes = records(plan, {"prompt": "Say."}), []

    async def main() -> dict[str, Any]:
        rows = Projection(url)
        write = rows._writing.write

        async def counted(some: Any) -> Any:
            sizes.append(len(some))
            return await write(some)

        rows._writing.write = counted  # type: ignore[method-assign]
        for run, record in news:
            rows.observe(run, record)
        await rows.close()
        return await stage.contents(url, "results")

    assert len(asyncio.run(main())["results"]) == 800
    assert len(sizes) > 2
    assert max(sizes) <= MOST


def test_rows_that_cannot_be_written_are_kept(new_sqlite: NewDatabase) -> None:
    """The run goes on; `flush` says why, and writes them once it can."""
    url = new_sqlite()

    async def main() -> tuple[str, str, dict[str, Any]]:
        engine = create_async_engine(url_of(url), connect_args={"timeout": 0})
        lock = sqlite3.connect(path_of(url), isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        rows = Projection(engine, linger=0)
        await rows.open()
        ended = await stage.play(stage.debate(), ASKED, observe=rows.observe)
        with pytest.raises(RowsFailed) as failed:
            await rows.flush()
        lock.execute("ROLLBACK")
        lock.close()
        await rows.close()
        await engine.dispose()
        return ended.status, str(failed.value), await stage.contents(url)

    status, said, found = asyncio.run(main())
    assert status == "completed"
    assert "database is locked" in said
    assert "coterie.patterns.project(" in said
    assert [row["status"] for row in found["executions"].values()] == ["completed"]
    assert len(found["results"]) == 5


def test_tables_that_are_missing_are_said_to_be(tmp_path: Path) -> None:
    """In an engine of the caller's nothing is made."""

    async def main() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'bare.sqlite'}")
        rows = Projection(engine)
        for run, record in records_of_a_debate:
            rows.observe(run, record)
        try:
            with pytest.raises(RowsFailed, match=r"no such table.*upgrade"):
                await rows.flush()
        finally:
            await engine.dispose()

    records_of_a_debate = records(stage.debate(rounds=1))
    asyncio.run(main())


def test_an_execution_that_is_let_go_is_not_left_running(new_sqlite: NewDatabase) -> None:
    """Its journal may have failed: nobody told of its end."""
    found = asyncio.run(written(new_sqlite(), records(stage.debate())[:-1]))

    [execution] = found["executions"].values()
    assert (execution["status"], execution["error"]) == ("paused", LET_GO)


def test_a_run_that_is_cancelled_says_so_and_goes_on_when_it_is_resumed(new_sqlite: NewDatabase) -> None:
    """Whoever observes the second half finds the first in the journal."""
    url, store = new_sqlite(), MemoryStore()

    async def main() -> tuple[dict[str, Any], ...]:
        asked = asyncio.Event()

        async def stuck(request: Request) -> Result:
            if request.agent.name != "opponent":
                return Answer(text="so it is")
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody wakes it")

        async with Projection(url) as rows:
            run = asyncio.create_task(stage.play(stage.debate(), ASKED, says=stuck, store=store, observe=rows.observe))
            await asked.wait()
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        cut = await stage.contents(url)
        async with Projection(url, read=store.read) as rows:
            await stage.play(stage.debate(), ASKED, store=store, observe=rows.observe, again=True)
        after = await stage.contents(url)
        async with Projection(url) as rows:
            await rows.project("r", store.read)
        return cut, after, await stage.contents(url)

    cut, after, told = asyncio.run(main())
    assert [row["status"] for row in cut["executions"].values()] == ["cancelled"]
    assert [row["status"] for row in after["executions"].values()] == ["completed"]
    assert len(after["results"]) == 5
    assert after == told


def test_a_row_that_changes_while_it_is_written_is_written_again(new_sqlite: NewDatabase) -> None:
    """What it was meanwhile does not count as what it is."""
    store, url = MemoryStore(), new_sqlite()
    asyncio.run(stage.play(stage.debate(), ASKED, store=store))

    async def main() -> dict[str, Any]:
        rows = Projection(url, linger=0)
        write, writes, goes_on = rows._writing.write, asyncio.Event(), asyncio.Event()

        async def slow(some: Any) -> Any:
            writes.set()
            await goes_on.wait()
            return await write(some)

        rows._writing.write = slow  # type: ignore[method-assign]
        async with rows:
            for run, record in list(history(store.read, "r"))[:3]:
                rows.observe(run, record)
            await writes.wait()
            projecting = asyncio.create_task(rows.project("r", store.read))
            await asyncio.sleep(0)
            goes_on.set()
            await projecting
            return await stage.contents(url)

    found = asyncio.run(main())
    assert [row["status"] for row in found["executions"].values()] == ["completed"]
    assert len(found["results"]) == 5


def test_a_child_run_that_is_seen_before_its_root_has_its_rows(new_sqlite: NewDatabase) -> None:
    """The journal tells what it is part of; what is observed of the root afterwards is known by then."""
    store, url = MemoryStore(), new_sqlite()
    plan = stage.team("compound", first=stage.debate("first", 1))
    asyncio.run(stage.play(plan, ASKED, store=store))
    news = list(history(store.read, "r"))

    async def main() -> tuple[dict[str, Any], dict[str, Any]]:
        whole = await written(new_sqlite(), news)
        async with Projection(url, read=store.read) as rows:
            for run, record in sorted(news, key=lambda one: one[0] == "r"):
                rows.observe(run, record)
        return whole, await stage.contents(url)

    whole, found = asyncio.run(main())
    assert len(found["executions"]) == 2
    assert found == whole


def test_a_run_whose_beginning_nobody_saw_has_no_rows(new_sqlite: NewDatabase) -> None:
    """It runs all the same; `flush` says what to do."""
    url = new_sqlite()

    async def main() -> dict[str, Any]:
        rows = Projection(url)
        for run, record in records_of_a_debate[3:]:
            rows.observe(run, record)
        with pytest.raises(RowsFailed, match=r"record 4 of run 'r' came before 1.*read=store\.read"):
            await rows.flush()
        await rows.close()
        await rows.close()
        return await stage.contents(url)

    records_of_a_debate = records(stage.debate(rounds=1))
    assert asyncio.run(main())["executions"] == {}


def test_a_record_that_cannot_be_told_is_no_other_runs_business(new_sqlite: NewDatabase) -> None:
    """Whoever closes the projection hears of it."""
    url = new_sqlite()
    odd = MessageSent(seq=3, sender="mediator", type="gossip")
    news = [*records_of("odd")[:2], ("odd", odd), *records_of("even")]

    async def main() -> dict[str, Any]:
        rows = Projection(url)
        await rows.open()
        for run, record in news:
            rows.observe(run, record)
        with pytest.raises(RowsFailed, match=r"record 3 of run 'odd' cannot be written as rows: .*gossip"):
            await rows.close()
        return await stage.contents(url, "executions")

    found = asyncio.run(main())["executions"].values()
    assert {row["metadata"]["run"]: row["status"] for row in found} == {"odd": "paused", "even": "completed"}


def test_a_row_that_the_database_refuses_holds_up_no_other(new_database: NewDatabase) -> None:
    """Whoever flushes hears which one, once; what was to be written with it is, and so is what comes later."""
    url = new_database()
    odd, even = records_of("odd"), records_of("even")
    third = [n for n, (_, record) in enumerate(odd) if isinstance(record, MessageSent)][2]
    odd[third] = "odd", structs.replace(odd[third][1], round=2**70)

    async def main() -> tuple[str, dict[str, Any]]:
        rows = Projection(url)
        for run, record in odd:
            rows.observe(run, record)
        with pytest.raises(RowsFailed) as refused:
            await rows.flush()
        for run, record in even:
            rows.observe(run, record)
        await rows.close()
        return str(refused.value), await stage.contents(url)

    said, found = asyncio.run(main())
    assert f"the database refuses row {message_id('odd', 3)} of execution {execution_id('odd')} in messages" in said
    assert "all rows that do not refer to it are written" in said
    assert [row["status"] for row in found["executions"].values()] == ["completed"] * 2
    assert sorted(row["sequence_number"] for row in found["messages"].values()) == [1, 1, 2, 2, 3, 4, 4]
    assert (len(found["agent_instances"]), len(found["results"])) == (6, 6)


def test_a_topology_that_cannot_be_saved_costs_its_own_run_alone(new_sqlite: NewDatabase) -> None:
    """Here somebody's trigger refuses it; rows that refer to it are named with the reason."""
    url = new_sqlite()
    refuse = "BEGIN SELECT RAISE(ABORT, 'no odd teams'); END"
    with closing(sqlite3.connect(path_of(url))) as other:
        other.execute(f"CREATE TRIGGER picky BEFORE INSERT ON topologies WHEN NEW.name = 'odd' {refuse}")

    async def main() -> dict[str, Any]:
        rows = Projection(url)
        for name in ("odd", "even"):
            await stage.play(stage.debate(name, rounds=1), ASKED, run=name, observe=rows.observe)
        with pytest.raises(RowsFailed, match=r"refuses row .* in executions: no odd teams"):
            await rows.close()
        return await stage.contents(url)

    found = asyncio.run(main())
    assert [row["topology_id"] for row in found["executions"].values()] == ["even"]
    assert len(found["results"]) == 3


KILLED = """
import asyncio, os, signal, sys
import rows_stage as stage
from coterie.agents.backends.base import Answer
from coterie.history.journal.jsonl import JsonlStore
from coterie.patterns.rows.tables import upgrade
from coterie.patterns.rows.projection import Projection
from pathlib import Path

async def main(url, folder):
    rows = Projection(url, linger=0)
    async def says(request):
        if request.turn == "opponent#2":
            await rows.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return Answer(text="so it is")
    async with rows:
        store = JsonlStore(Path(folder))
        await stage.play(stage.debate(), {"question": "Is it so?"}, says=says, store=store, observe=rows.observe)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_told_by_its_journal(new_sqlite: NewDatabase, tmp_path: Path) -> None:
    """Its execution stays `running` until somebody looks: then it is paused, and after a resume it is complete."""
    url, folder = new_sqlite(), tmp_path / ".coterie"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", KILLED, url, str(folder)], env=env, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL

    async def main() -> list[dict[str, Any]]:
        found = [await stage.contents(url)]
        await project("r", url, state_dir=folder)
        found.append(await stage.contents(url))
        store = JsonlStore(folder)
        async with Projection(url, read=store.read) as rows:
            await stage.play(stage.debate(), ASKED, store=store, observe=rows.observe, again=True)
        found.append(await stage.contents(url))
        ids = await project("r", state_dir=folder)
        found.append(await stage.contents(f"sqlite:///{folder / 'rows.sqlite'}"))
        assert ids == list(found[-1]["executions"])
        return found

    killed, seen, after, told = asyncio.run(main())
    assert [[row["status"] for row in one["executions"].values()] for one in (killed, seen, after)] == [
        ["running"],
        ["paused"],
        ["completed"],
    ]
    assert len(killed["results"]) == 3
    assert after == told


def test_a_run_that_somebody_drives_is_running(new_sqlite: NewDatabase, tmp_path: Path) -> None:
    """Its rows may be told all the same."""
    url = new_sqlite()

    async def main() -> dict[str, Any]:
        store, found = JsonlStore(tmp_path), []

        async def says(request: Request) -> Result:
            if not found:
                await project("r", url, state_dir=tmp_path)
                found.append(await stage.contents(url))
            return Answer(text="so it is")

        await stage.play(stage.debate(), ASKED, says=says, store=store)
        return found[0]

    [execution] = asyncio.run(main())["executions"].values()
    assert execution["status"] == "running"


def test_a_run_of_something_else_is_refused(tmp_path: Path) -> None:
    """Rows tell of patterns."""
    flow = Plan(name="flow", agents={"a": AgentPlan(name="a")}, coordination=FlowPlan(mentions=("a",), groups=()))

    async def main() -> None:
        await stage.play(flow, {"prompt": "?"}, store=JsonlStore(tmp_path / ".coterie"))
        with pytest.raises(UsageError, match="only runs of built-in patterns"):
            await project(state_dir=tmp_path / ".coterie")
        with pytest.raises(NoSuchRun):
            await project("nobody", state_dir=tmp_path / ".coterie")

    asyncio.run(main())


def test_a_definition_that_is_there_stays_as_it_is(new_database: NewDatabase) -> None:
    """It is its user's; an execution refers to it by its name."""
    url = new_database()
    news = records(stage.debate(rounds=1))

    async def main() -> dict[str, Any]:
        engine = open_engine(url)
        async with engine.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO topologies (name, description, topology_type, version, config, created_at, updated_at)"
                    " VALUES ('debate', 'Mine.', 'debate', '2.0.0', '{}', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)"
                )
            )
        await engine.dispose()
        await written(url, news)
        return await stage.contents(url, "topologies", "executions")

    found = asyncio.run(main())
    assert [row["description"] for row in found["topologies"].values()] == ["Mine."]
    assert [row["topology_id"] for row in found["executions"].values()] == ["debate"]
