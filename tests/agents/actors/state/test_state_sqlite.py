"""States in SQLite: private files, several processes, databases of others."""

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.agents.actors.state import checkpoints
from coterie.agents.actors.state.sqlite import SQLiteStateStore
from coterie.errors import StateFailed


def stored(path: Path, agent: str) -> Any:
    async def main() -> Any:
        store = SQLiteStateStore(path)
        try:
            return await store.get(agent)
        finally:
            await store.close()

    return asyncio.run(main())


def test_nothing_is_made_before_a_state_is_needed(tmp_path: Path) -> None:
    """Declaring a store touches no file."""
    SQLiteStateStore(tmp_path / "deep" / "state.db")

    assert list(tmp_path.iterdir()) == []


def test_all_files_are_private(tmp_path: Path) -> None:
    """The database, what SQLite puts beside it, and a folder made for it, whatever the umask."""
    path = tmp_path / "deep" / "state.db"

    async def main() -> list[str]:
        store = SQLiteStateStore(path)
        await store.set("a", {})
        modes = [oct(stat.S_IMODE(file.stat().st_mode)) for file in sorted(path.parent.iterdir())]
        await store.close()
        return modes

    before = os.umask(0)
    try:
        assert asyncio.run(main()) == ["0o600", "0o600", "0o600"]
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_database_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    """As when it was made by another program."""
    path = tmp_path / "state.db"
    sqlite3.connect(path).close()
    path.touch(0o644)
    path.chmod(0o644)

    assert stored(path, "a") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_state_is_on_disk_when_set_returns(tmp_path: Path) -> None:
    """A process that is killed at once loses nothing."""
    path = tmp_path / "state.db"
    code = (
        "import asyncio, os, signal\n"
        "from coterie.agents.actors.state.sqlite import SQLiteStateStore\n"
        "async def main():\n"
        f"    store = SQLiteStateStore({str(path)!r})\n"
        "    await store.set('a', {'n': 7})\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60)

    assert done.returncode == -9
    assert stored(path, "a") == {"n": 7}


def test_each_commit_reaches_the_disk(tmp_path: Path) -> None:
    """A machine that loses its power loses no state: with a log ahead of writes, only `FULL` syncs each commit."""

    async def main() -> list[Any]:
        store = SQLiteStateStore(tmp_path / "state.db")
        asked = [await store._call(lambda name=name: store._rows(f"PRAGMA {name}")) for name in PRAGMAS]
        await store.close()
        return asked

    PRAGMAS = ("synchronous", "journal_mode")
    assert asyncio.run(main()) == [[2], ["wal"]]


WRITER = """
import asyncio, sys
from coterie.agents.actors.state.sqlite import SQLiteStateStore
async def main(path, name):
    store = SQLiteStateStore(path)
    for n in range(30):
        await asyncio.gather(store.set(name, {"n": n}), store.set("shared", {"by": name, "again": name}))
    await store.close()
asyncio.run(main(*sys.argv[1:]))
"""


def test_several_processes_write_at_the_same_time(tmp_path: Path) -> None:
    """They open a new database together, none fails, and no state is a mixture of two."""
    path = tmp_path / "state.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"w{n}"], stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]

    assert [(writer.communicate(timeout=60)[1], writer.returncode) for writer in writers] == [("", 0)] * 4
    assert [stored(path, f"w{n}") for n in range(4)] == [{"n": 29}] * 4
    shared = stored(path, "shared")
    assert shared["by"] == shared["again"]


def test_a_database_that_another_process_is_opening_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself fails at once when two processes choose the journal mode together."""
    path = tmp_path / "state.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        other.execute("COMMIT")

    monkeypatch.setattr("coterie.agents.actors.state.sqlite.time.sleep", wait)
    assert stored(path, "a") is None
    assert len(waits) == 1
    other.close()


@pytest.mark.long
def test_a_long_write_of_another_process_is_waited_for(tmp_path: Path) -> None:
    """As on a slow disk, where several others may go first."""
    path = tmp_path / "state.db"
    assert stored(path, "a") is None
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    end = threading.Timer(6, other.execute, ["COMMIT"])
    end.start()

    async def main() -> None:
        store = SQLiteStateStore(path)
        await store.set("a", {"n": 1})
        await store.close()

    asyncio.run(main())
    end.join()
    other.close()


def test_states_set_together_share_a_commit(tmp_path: Path) -> None:
    """A hundred agents that checkpoint at once wait for a few syncs of the disk, not for a hundred."""
    commits: list[int] = []

    class Counting(SQLiteStateStore):
        def _commit(self, rows: Any) -> None:
            commits.append(len(rows))
            super()._commit(rows)

    async def main() -> None:
        store = Counting(tmp_path / "state.db")
        await asyncio.gather(*(store.set(f"a{n}", {"n": n}) for n in range(100)))
        assert len(await store.list_agents()) == 100
        await store.close()

    asyncio.run(main())
    assert sum(commits) == 100
    assert len(commits) <= 2


def test_a_database_of_civitas_is_read_as_it_is(tmp_path: Path) -> None:
    """The table is the same, the states are JSON."""
    path = tmp_path / "agency_state.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE agent_state (agent_name TEXT PRIMARY KEY, state TEXT NOT NULL)")
        db.execute("INSERT INTO agent_state VALUES (?, ?)", ("greeter", json.dumps({"seen": ["é"]})))
    db.close()

    assert stored(path, "greeter") == {"seen": ["é"]}


@bundle("row", ["{", "[1]", "null", '{"n": NaN}', b"\xff"])
def test_a_damaged_state_is_named(tmp_path: Path, row: Any) -> None:
    """It does not look like an agent that never stored anything."""
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE agent_state (agent_name TEXT PRIMARY KEY, state TEXT NOT NULL)")
        db.execute("INSERT INTO agent_state VALUES ('a', ?)", (row,))
    db.close()

    with pytest.raises(StateFailed, match=r"state.db: the state of agent 'a' is not a JSON object .*state clear a"):
        stored(path, "a")


def test_what_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """With the path in the error."""
    path = tmp_path / "notes.txt"
    path.write_text("these are no states\n" * 100)

    with pytest.raises(StateFailed, match=r"notes.txt: file is not a database"):
        stored(path, "a")
    assert path.read_text() == "these are no states\n" * 100


def test_a_folder_and_a_pipe_are_no_databases(tmp_path: Path) -> None:
    """The reason is given at once; a pipe is never opened, which would block."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(StateFailed, match="Is a directory"):
        stored(tmp_path, "a")
    with pytest.raises(StateFailed, match="it is a pipe, not a regular file"):
        stored(tmp_path / "pipe", "a")


def test_a_link_to_a_database_is_followed(tmp_path: Path) -> None:
    """The user chose it; the database itself is what becomes private."""
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    stored(tmp_path / "state.db", "a")
    (tmp_path / "state.db").chmod(0o644)

    assert stored(tmp_path / "link.db", "a") is None
    assert stat.S_IMODE((tmp_path / "state.db").stat().st_mode) == 0o600


def test_a_failed_write_fails_all_that_wait_for_it_and_the_next_can_succeed(tmp_path: Path) -> None:
    """A full disk, here a limit of the database, is an error of `set`; earlier states are unchanged."""

    async def main() -> None:
        store = SQLiteStateStore(tmp_path / "state.db")
        await store.set("a", {"n": 1})
        await store._call(lambda: store._connected().execute("PRAGMA max_page_count = 1"))
        large = {"text": "x" * 100_000}
        failed = await asyncio.gather(*(store.set(name, large) for name in "ab"), return_exceptions=True)
        assert [str(one).endswith("state.db: database or disk is full") for one in failed] == [True, True]
        assert all(isinstance(one, StateFailed) for one in failed)
        assert await store.get("a") == {"n": 1}
        await store._call(lambda: store._connected().execute("PRAGMA max_page_count = 1000000"))
        await store.set("a", large)
        assert await store.get("a") == large
        await store.close()

    asyncio.run(main())


def test_a_store_of_a_user_that_fails_is_named() -> None:
    """Its errors become one error of coterie; what it is given is plain data of its own."""
    given: list[Any] = []

    class Broken:
        async def set(self, agent_name: str, state: Any) -> None:
            given.append(state)
            raise ConnectionError("no route")

        async def get(self, agent_name: str) -> Any:
            raise KeyError(agent_name)

    state: dict[str, Any] = {"list": []}

    async def main() -> None:
        with pytest.raises(StateFailed, match="the state store Broken: ConnectionError: no route"):
            await checkpoints.save(Broken(), "a", state)  # type: ignore[arg-type]
        with pytest.raises(StateFailed, match="the state store Broken: KeyError: 'a'"):
            await checkpoints.restore(Broken(), "a")  # type: ignore[arg-type]

    asyncio.run(main())
    assert given == [{"list": []}]
    assert given[0]["list"] is not state["list"]
