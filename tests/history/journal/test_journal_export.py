"""What every export of a cluster keeps to, in a folder and in PostgreSQL; and what only the database has."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import ClusterFailed, ExportConflict, UsageError
from coterie.history.journal.export import Export, folder_of, open_export
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.postgres import PostgresArchive, PostgresExport, shown
from coterie.history.journal.records import RunFinished, RunStarted, TurnFinished, TurnStarted
from coterie.history.journal.runs import RunRecord

Open = Callable[[], Export]
LONG = "é" * 2000


@pytest.fixture(params=["folder", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = str(tmp_path / "export") if request.param == "folder" else request.getfixturevalue("new_export")()
    return found


def journal(run: str, at: float = 1.0) -> list[RunRecord]:
    texts = ["short", LONG, LONG, "@text:none", "\ud800" + LONG, "a\u2028b\x85c"]
    answers = [TurnFinished(seq=n, at=at + n, turn=f"a#{n}", attempt=1, text=text) for n, text in enumerate(texts, 2)]
    team = TurnStarted(seq=8, at=at + 8, turn="team#1", agent="team", attempt=1)
    return [(run, one) for one in (RunStarted(seq=1, at=at, run=run, engine="flow"), *answers, team)]


def used(url: str, *work: Callable[[Export], Any]) -> list[Any]:
    async def main() -> list[Any]:
        export = open_export(url)
        try:
            return [await one(export) for one in work]
        finally:
            await export.close()

    return asyncio.run(main())


def test_records_come_back_whole_whoever_wrote_them_how_often(url: str) -> None:
    """Parts in any sizes, repeated and overlapping, as an activity that is retried sends them, make one journal."""
    lines = journal("r1")
    parts = [lines[:2], lines[:4], lines[3:], lines, []]
    for part in parts:
        used(url, lambda export, part=part: export.put(part))
    [found] = used(url, lambda export: export.load("r1"))
    assert found == lines


def test_child_runs_come_with_their_root_and_no_other_run_does(url: str) -> None:
    """An id that only begins like the root's is another run; the records of one append may be of any runs."""
    child, deep, others = "r1/team#1.1", "r1/team#1.1/team#1.1", ["r10", "r", "r1-2", "r1%"]
    mixed = [one for some in zip(*map(journal, ["r1", child, deep, *others]), strict=True) for one in some]
    _, found, none = used(
        url, lambda export: export.put(mixed), lambda export: export.load("r1"), lambda export: export.load("r2")
    )
    runs = {run for run, _ in found}
    assert none == []
    assert runs == {"r1", child, deep}
    assert all([one for one in found if one[0] == run] == journal(run) for run in runs)


def test_the_first_claim_of_a_name_counts(url: str) -> None:
    """However many make one at once, and whatever the name; that of another name is another one."""
    names = ("r1", "r1", long := "a#1.1 " * 99, "r1")

    async def four(export: Export) -> list[bytes]:
        return await asyncio.gather(*(export.claim(name, f"{k}".encode()) for k, name in enumerate(names)))

    async def again(export: Export) -> list[bytes]:
        return [await export.claim(name, b"late") for name in ("r1", long)]

    (first, second, other, last), later = used(url, four, again)
    assert first == second == last in (b"0", b"1", b"3")
    assert [other, *later] == [b"2", first, b"2"]


def test_a_record_of_another_owner_is_refused(url: str) -> None:
    """A run that was terminated and resumed has one truth: what comes late is not mixed in, and the error says so."""
    lines = journal("r1")
    other = ("r1", TurnFinished(seq=3, at=3.0, turn="b#1", attempt=1))
    used(url, lambda export: export.put(lines[:3]))
    with pytest.raises(ExportConflict, match="another record 3"):
        used(url, lambda export: export.put([lines[0], lines[1], other]))
    [found] = used(url, lambda export: export.load("r1"))
    assert found == lines[:3]


def test_blobs_are_kept_by_their_hash(url: str) -> None:
    """Any bytes, once however often; an unknown hash is an error that names the place."""
    data = bytes(range(256)) * 1000
    first, again, found = used(
        url,
        lambda export: export.put_blob(data),
        lambda export: export.put_blob(data),
        lambda export: export.blob(hashlib.sha256(data).hexdigest()),
    )
    assert first == again == hashlib.sha256(data).hexdigest()
    assert found == data
    with pytest.raises(ClusterFailed, match="export"):
        used(url, lambda export: export.blob("0" * 64))


def test_output_comes_back_from_where_a_reader_is(url: str) -> None:
    """Pieces that are sent again are kept once; another attempt, or a child run, has other output."""
    one, child = "r1/a#1.1", "r1/a#1.1/b#1.1"
    *_, whole, rest, other, none = used(
        url,
        lambda export: export.put_output(one, 0, b"1\n22\n"),
        lambda export: export.put_output(one, 0, b"1\n22\n"),
        lambda export: export.put_output(one, 5, b"333\n"),
        lambda export: export.put_output(child, 0, b"child\n"),
        lambda export: export.output(one, 0),
        lambda export: export.output(one, 5),
        lambda export: export.output(child, 0),
        lambda export: export.output("r1/a#1.2", 0),
    )
    assert (whole, rest, other, none) == (b"1\n22\n333\n", b"333\n", b"child\n", b"")


def test_what_many_attempts_print_at_a_time_is_written_at_once(
    new_export: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails loses nothing of the others."""
    export, writes = PostgresExport(new_export()), list[object]()
    patiently = export._patiently

    async def counted(work: Any) -> Any:
        writes.append(work)
        if len(writes) == 2:
            raise ClusterFailed("export", "away")
        return await patiently(work)

    monkeypatch.setattr(export, "_patiently", counted)

    async def main() -> list[bytes]:
        puts = (export.put_output(f"r/a#{n}.1", 0, b"%d\n" % n) for n in range(50))
        failed = [one for one in await asyncio.gather(*puts, return_exceptions=True) if one is not None]
        assert len(failed) == 1
        assert len(writes) == 3
        monkeypatch.setattr(export, "_patiently", patiently)
        found = [await export.output(f"r/a#{n}.1", 0) for n in range(50)]
        await export.close()
        return found

    assert asyncio.run(main()) == [b"%d\n" % n for n in range(50)]


def test_a_folder_is_a_state_directory(tmp_path: Path) -> None:
    """What is exported to a folder is read there by whatever reads runs of this machine."""
    used(f"file://{tmp_path}", lambda export: export.put(journal("r1")))
    assert [record.seq for record in JsonlStore(tmp_path).read("r1")] == [*range(1, 9)]


def test_a_text_is_stored_once(new_export: Callable[[], str]) -> None:
    """Texts above 1 kB lie beside the journals, by hash: also those that were put as blobs."""
    url = new_export()

    async def count() -> tuple[int, int]:
        export = PostgresExport(url)
        await export.put_blob(LONG.encode())
        for run in ("r1", "r2"):
            await export.put(journal(run))
        async with export._connection() as connection:
            blobs = await connection.fetchval("select count(*) from coterie.blob")
            longest = await connection.fetchval("select max(length(line)) from coterie.record")
        await export.close()
        return blobs, longest

    blobs, longest = asyncio.run(count())
    assert blobs == 3  # LONG, the one with half a surrogate pair, and the one that looks like a reference
    assert longest < 1000


def test_many_nodes_write_one_export(new_export: Callable[[], str]) -> None:
    """Nodes that start together make the tables once, and write the same texts without a deadlock."""
    url = new_export()

    async def node(number: int) -> None:
        export = open_export(url)
        for run in ("a", "b") if number % 2 else ("b", "a"):
            await export.put([*journal(f"{run}{number}"), *journal(run)])
        await export.close()

    async def main() -> list[RunRecord]:
        await asyncio.gather(*map(node, range(6)))
        export = open_export(url)
        found = await export.load("a")
        await export.close()
        return found

    assert asyncio.run(main()) == journal("a")


def test_a_follower_is_notified(new_export: Callable[[], str]) -> None:
    """New records reach a follower without a poll, and it ends with the run."""
    url = new_export()

    async def main() -> list[int]:
        export, archive, seen = open_export(url), PostgresArchive(url), []
        await export.put(journal("r1"))
        async for record in archive.follow("r1"):
            seen.append(record.seq)
            if record.seq == 8:
                await export.put([("r1", RunFinished(seq=9, outcome="completed"))])
        await export.close()
        archive.close()
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [*range(1, 10)]


def test_a_password_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its place nor its errors show what a URL has beside host and database."""
    monkeypatch.setattr("coterie.history.journal.postgres.ANSWER_WITHIN", 0.0)
    url = "postgresql://ada:se%20cret@127.0.0.1:1/runs?password=other"
    assert shown(url) == "postgresql://127.0.0.1:1/runs"
    with pytest.raises(ClusterFailed) as failed:
        used(url, lambda export: export.load("r1"))
    assert not [word for word in ("se%20cret", "se cret", "other", "ada") if word in str(failed.value)]


def test_what_an_export_is(tmp_path: Path) -> None:
    """A path, file:// or postgresql://; another scheme is refused by name."""
    assert folder_of(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert folder_of("runs") == Path("runs")
    assert folder_of("postgres://localhost/x") is None
    with pytest.raises(UsageError, match="mysql"):
        open_export("mysql://localhost/x")
