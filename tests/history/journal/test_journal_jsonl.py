"""Journals in files: torn tails, damage, full disks, owners that are killed."""

import asyncio
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elsewhere import NEEDS_PROC
from hypothesis import given
from hypothesis import strategies as st

from coterie.base import files
from coterie.errors import Fenced, JournalFailed, JournalUnreadable, RunDeleted, RunIsOwned
from coterie.history.journal import lines, pace
from coterie.history.journal import lock as lock_module
from coterie.history.journal.codec import Encoder
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import JournalRepaired, Record, RunOwned, RunStarted, RunStopped, TurnFinished
from coterie.history.journal.writer import JsonlWriter

LONG = "a long tale, ünïcode too " * 100


def owned(seq: int) -> RunOwned:
    return RunOwned(seq=seq, at=float(seq), epoch=seq)


def finished(seq: int, text: str) -> TurnFinished:
    return TurnFinished(seq=seq, at=float(seq), turn="a#1", attempt=1, text=text)


RECORDS: list[Record] = [RunStarted(seq=1, at=1.0, run="r1", engine="flow"), owned(2), finished(3, LONG)]


def write(store: JsonlStore, run: str, records: list[Record]) -> Path:
    async def main() -> None:
        writer = store.claim(run)
        await writer.durable(writer.append(records))
        await writer.close()

    asyncio.run(main())
    return store.folder(run) / "journal.jsonl"


def close(writer: JsonlWriter) -> None:
    asyncio.run(writer.close())


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path, poll=0.001)


def test_where_things_lie(store: JsonlStore, tmp_path: Path) -> None:
    """A run is one folder, its children in the folders of their attempts below it."""
    assert store.folder("r1") == tmp_path / "runs" / "r1"
    assert store.folder("r1/team#2.1/inner#1.3") == tmp_path / "runs/r1/turns/team#2.1/turns/inner#1.3"
    write(store, "r1", RECORDS)
    assert sorted(path.name for path in (tmp_path / "runs" / "r1").iterdir()) == ["journal.jsonl", "lock"]


def test_a_line_torn_at_any_byte_is_cut_off_and_kept(store: JsonlStore, tmp_path: Path) -> None:
    """Whatever a crash left of the last line, a text's too: reading ignores it, the next claim sets it aside."""
    whole = write(store, "r1", RECORDS).read_bytes()
    more = write(store, "r1", [owned(4), finished(5, "ü" * 600)]).read_bytes()
    assert more.startswith(whole)
    ends = [n for n in range(len(whole), len(more) + 1) if more[n - 1 : n] == b"\n"]
    within_the_text = range(len(whole), ends[-2], 29)
    for n in [*within_the_text, *range(ends[-2], len(more))]:
        sub = JsonlStore(tmp_path / str(n))
        path = sub.folder("r1") / "journal.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(more[:n])
        kept = max(end for end in ends if end <= n)
        last = 3 if kept == len(whole) else 4

        assert [record.seq for record in sub.read("r1")] == list(range(1, last + 1))
        writer = sub.claim("r1")
        if kept == n:
            assert writer.repaired is None
        else:
            assert writer.repaired == JournalRepaired(file="journal.torn-1", size=n - kept)
            assert (path.parent / "journal.torn-1").read_bytes() == more[kept:n]
        assert path.read_bytes() == more[:kept]
        writer.append([finished(last + 1, "ü" * 600)])
        close(writer)
        assert list(sub.read("r1"))[-1] == finished(last + 1, "ü" * 600)
        shutil.rmtree(tmp_path / str(n))


@pytest.mark.parametrize("tail", [b"\n", b"\x00" * 70, b"\x00\x00\n", b'{"topic":"run.owned"\n', b"\xff\xfe\n", b"{}"])
def test_a_last_line_that_is_not_json_is_torn(store: JsonlStore, tail: bytes) -> None:
    """Also with its newline: a disk may have lost the middle of it. A second tear gets a file of its own."""
    path = write(store, "r1", RECORDS)
    for n in (1, 2):
        path.write_bytes(path.read_bytes() + tail)
        assert list(store.read("r1")) == RECORDS
        writer = store.claim("r1")
        assert writer.repaired == JournalRepaired(file=f"journal.torn-{n}", size=len(tail))
        assert (path.parent / f"journal.torn-{n}").read_bytes() == tail
        close(writer)
    assert list(store.read("r1")) == RECORDS


@pytest.mark.parametrize("damage", [b"\n", b"\x00\x00\n", b"oops\n", b'{"topic":"run.exploded","seq":2}\n', b"7\n"])
def test_damage_elsewhere_stops_everything_and_changes_nothing(store: JsonlStore, damage: bytes) -> None:
    """A journal that cannot be read is neither repaired nor begun afresh; the error names the line."""
    path = write(store, "r1", RECORDS)
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first + b"\n" + damage + rest + b'{"torn')
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:2: "):
            store.claim("r1")
    with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:2: "):
        list(store.read("r1"))

    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["journal.jsonl", "lock"]
    assert store.list() == ["r1"]


@pytest.mark.parametrize("line", [b'{"topic":"run.exploded","seq":4}\n', b'{"topic":"run.owned","seq":9,"epoch":1}\n'])
def test_a_last_line_that_is_json_is_not_torn(store: JsonlStore, line: bytes) -> None:
    """What a newer coterie wrote, or a record out of order, is never cut off."""
    path = write(store, "r1", RECORDS)
    path.write_bytes(path.read_bytes() + line)

    with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:5: "):
        store.claim("r1")


def test_an_owner_makes_room_and_takes_it_away(store: JsonlStore) -> None:
    """While a run is owned its journal ends in room for more, which no reader minds; what is closed has none."""

    async def main() -> None:
        writer = store.claim("r1")
        path = store.folder("r1") / "journal.jsonl"
        await writer.durable(writer.append(RECORDS))
        content = path.read_bytes()
        size = len(content.rstrip(b"\t"))
        assert len(content) > size
        assert list(store.read("r1")) == RECORDS
        assert all(json.loads(line) for line in content.splitlines() if line.strip()), "still lines of JSON"
        await writer.durable(writer.append([owned(4)]))
        assert path.stat().st_size == len(content), "the room took it in"
        assert list(store.read("r1")) == [*RECORDS, owned(4)]
        await writer.close()
        assert not path.read_bytes().endswith(b"\t")

    asyncio.run(main())
    assert list(store.read("r1")) == [*RECORDS, owned(4)]


def test_a_killed_owner_leaves_room_and_nothing_to_repair(store: JsonlStore) -> None:
    """The room behind the last commit is not a torn line."""
    path = write(store, "r1", RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\t" * 4096)

    writer = store.claim("r1")
    assert writer.repaired is None
    assert path.read_bytes() == whole
    close(writer)


def _put(store: JsonlStore, records: list[Record]) -> bytes:
    """What the journal of `r1` holds with *records* behind it, in a commit of their own."""
    writer = store.claim("r1")
    writer.append(records)
    writer.give_up()
    return (store.folder("r1") / "journal.jsonl").read_bytes()


@given(st.data())
def test_what_a_power_cut_leaves_of_a_commit_is_never_read_wrongly(data: st.DataObject) -> None:
    """Whichever sectors of the last commit were lost, what is read is a beginning of it, and the rest is set aside.

    Be it the first or a later one, written into room that was there or behind the end of the file, where lost sectors
    are zeros, or were never added.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = JsonlStore(Path(folder))
        before = data.draw(st.sampled_from([[], RECORDS]))
        whole = _put(store, before)
        texts = data.draw(st.lists(st.text("ab ", max_size=400), min_size=1, max_size=4))
        last = [finished(len(before) + 1 + n, text) for n, text in enumerate(texts)]
        torn = bytearray(_put(store, last) + b"\t" * 700)
        room = data.draw(st.integers(len(whole), len(torn))) if before else 0
        sector = data.draw(st.sampled_from([64, 512]))
        for n in data.draw(st.sets(st.integers(len(whole) // sector, len(torn) // sector), min_size=1)):
            for at in range(max(n * sector, len(whole)), min((n + 1) * sector, len(torn))):
                torn[at : at + 1] = b"\t" if at < room else b"\0"
        path = store.folder("r1") / "journal.jsonl"
        path.write_bytes(torn[: data.draw(st.integers(room, len(torn)))])

        read = list(store.read("r1"))
        assert read == [*before, *last][: len(read)]
        assert len(read) >= len(before)
        torn = bytearray(path.read_bytes())
        writer = store.claim("r1")
        assert list(store.read("r1")) == read
        assert (writer.repaired is None) == (not torn[len(path.read_bytes()) :].strip(b"\t"))
        writer.append([finished(len(read) + 1, "on")])
        close(writer)
        assert len(list(store.read("r1"))) == len(read) + 1


def test_a_gap_in_the_first_commit_is_torn_and_in_an_unmarked_journal_damage(store: JsonlStore) -> None:
    """A journal that begins with a blank says where its commits end; of an earlier one nobody knows, so it is kept."""
    path = write(store, "r1", RECORDS)
    found = path.read_bytes().rstrip(b" \n").splitlines(keepends=True)
    found[2] = b"\t" * (len(found[2]) - 1) + b"\n"
    path.write_bytes(b"".join(found).lstrip(b" ") + b"\n")
    with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:3: "):
        store.claim("r1")

    path.write_bytes(b"".join(found) + b"\n")
    writer = store.claim("r1")
    assert (writer.last, writer.repaired is None) == (2, False)
    close(writer)


def test_damage_before_the_last_commit_is_not_taken_for_a_torn_one(store: JsonlStore) -> None:
    """A gap that a later commit follows is damage, though no record behind it is on the line that is damaged."""
    path = write(store, "r1", RECORDS)
    write(store, "r1", [owned(4), owned(5)])
    write(store, "r1", [owned(6)])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-3] = b"\t" * (len(lines[-3]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))

    with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:5: "):
        store.claim("r1")


def test_a_reader_does_not_see_half_a_line(store: JsonlStore) -> None:
    """A follower waits until the line is whole, also when another owner repairs it first."""
    path = write(store, "r1", RECORDS)
    last = Encoder(sealed=True).encode([RunStopped(seq=4, at=4.0, reason="waiting")])

    async def main() -> list[int]:
        seen = []
        async for record in store.follow("r1"):
            seen.append(record.seq)
            if record.seq == 3:
                path.write_bytes(path.read_bytes() + b'{"topic":"run.stopped","seq":4,"reason":"a text that was longer')
                asyncio.get_running_loop().call_later(0.02, path.write_bytes, path.read_bytes()[: -len(last)])
                whole = path.read_bytes().rpartition(b"\n")[0] + b"\n" + last
                asyncio.get_running_loop().call_later(0.04, path.write_bytes, whole)
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [1, 2, 3, 4]


def test_a_run_that_is_deleted_meanwhile_is_not_listed(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the folder and the look into the journal."""
    for run in ("r1", "r2"):
        write(store, run, RECORDS)
    opened = files.open_private

    def late(path: Path, mode: str) -> Any:
        if path.parent.name == "r1":
            path.unlink()
        return opened(path, mode)

    monkeypatch.setattr(files, "open_private", late)
    assert store.list() == ["r2"]


# -- owners -----------------------------------------------------------------------------------------------------------

CHILD = """
    import asyncio, sys
    from pathlib import Path
    from coterie.errors import RunIsOwned
    from coterie.history.journal.jsonl import JsonlStore
    from coterie.history.journal.records import RunOwned

    async def main():
        store = JsonlStore(Path(sys.argv[1]))
        try:
            writer = store.claim("r1")
        except RunIsOwned:
            print("refused", flush=True)
            return
        child = store.claim("r1/team#1.1")
        await writer.durable(writer.append([RunOwned(seq=writer.last + 1, epoch=writer.last + 1)]))
        writer.append([RunOwned(seq=writer.last + 1, epoch=1, source="never synced")])
        print("owned", flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_a_run_owned_by_another_process_is_refused_until_it_is_killed(
    store: JsonlStore, other: subprocess.Popen[str]
) -> None:
    """The kernel frees the run with `kill -9`; what was durable is there, what was not is not."""
    assert said(other) == "owned"
    assert store.owned("r1")
    assert store.owned("r1/team#1.1")
    with pytest.raises(RunIsOwned, match="lock"):
        store.claim("r1")
    assert [record.seq for record in store.read("r1")] == [1], "reading needs no lock"

    other.send_signal(signal.SIGKILL)
    other.wait()

    assert not store.owned("r1")
    writer = store.claim("r1")
    assert writer.last == 1
    close(writer)


def test_another_process_is_refused(store: JsonlStore, tmp_path: Path) -> None:
    """The refusal works in the other direction, too, and this process goes on."""
    writer = store.claim("r1")
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert told.stdout == "refused\n"
    writer.append([owned(1)])
    close(writer)


def test_a_program_we_start_does_not_keep_the_run(store: JsonlStore) -> None:
    """The lock is not handed to agents: one that outlives its owner does not keep the run owned."""
    writer = store.claim("r1")
    with subprocess.Popen(["sleep", "60"], close_fds=False) as agent:
        close(writer)
        again = store.claim("r1")
        close(again)
        agent.kill()


def test_someone_who_looks_does_not_keep_an_owner_out(store: JsonlStore, tmp_path: Path) -> None:
    """Asking whether a run is owned takes its lock for a moment; a claim waits that out."""
    close(store.claim("r1"))
    with (tmp_path / "runs/r1/lock").open() as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        timer = threading.Timer(0.5, fcntl.flock, [looker, fcntl.LOCK_UN])
        timer.start()
        close(store.claim("r1"))
        timer.join()


def test_an_owner_whose_lock_was_replaced_is_fenced(store: JsonlStore, tmp_path: Path) -> None:
    """Somebody removed the lock and another process owns the run now: this owner is over, and writes nothing more."""

    async def main() -> None:
        former = store.claim("r1")
        await former.durable(former.append(RECORDS))
        (store.folder("r1") / "lock").unlink()
        current = JsonlStore(tmp_path).claim("r1")
        former.append([finished(4, "from the former")])
        with pytest.raises(Fenced):
            await former.durable(4)
        with pytest.raises(Fenced):
            former.append([owned(5)])
        await former.close()
        await current.durable(current.append([owned(4)]))
        await current.close()

    asyncio.run(main())
    assert list(store.read("r1")) == [*RECORDS, owned(4)]


def test_a_run_deleted_under_its_owner_fails(store: JsonlStore) -> None:
    """What is written to a deleted file is not safe, so nobody is told that it is."""

    async def main() -> None:
        writer = store.claim("r1")
        shutil.rmtree(store.folder("r1"))
        with pytest.raises(RunDeleted, match="git clean"):
            await writer.durable(writer.append(RECORDS))
        await writer.close()

    asyncio.run(main())


def test_without_file_locks_a_claim_is_refused(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the file system says that it cannot lock, or grants everybody everything."""

    def no_locks(fd: int, *, shared: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    for broken in (no_locks, lambda fd, *, shared: True):
        monkeypatch.setattr(lock_module, "_try_lock", broken)
        with pytest.raises(JournalFailed, match="file locks do not work"):
            store.claim("r1")
    monkeypatch.undo()
    close(store.claim("r1"))


@pytest.mark.parametrize(("number", "is_raised"), [(errno.ENOLCK, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_without_file_locks_a_run_has_no_owner(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch, number: int, is_raised: bool
) -> None:
    """A copy on a file system that cannot lock is read as one that was cut off; a broken disk is still an error."""
    close(store.claim("r1"))

    def no_locks(fd: int, *, shared: bool) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock_module, "_try_lock", no_locks)
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            store.owned("r1")
    else:
        assert not store.owned("r1")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    """The state directory is a file: the claim says so and names it."""
    (tmp_path / "state").write_text("")

    with pytest.raises(JournalFailed, match="state"):
        JsonlStore(tmp_path / "state").claim("r1")


# -- durability -------------------------------------------------------------------------------------------------------


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads of the syncs so far; the disk is as slow as `QUICK` says."""
    if not hasattr(os, "fdatasync"):
        pytest.skip("macOS has no fdatasync")
    seen: list[str] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        seen.append(threading.current_thread().name)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return seen


def test_what_was_begun_is_not_durable(store: JsonlStore, syncs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`begin` writes and does not wait; each commit is on the disk before the next one is written."""
    monkeypatch.setattr(pace, "QUICK", 1e9)
    writer = store.claim("r1")
    writer.append(RECORDS)
    assert writer.begin()
    assert list(store.read("r1")) == RECORDS
    assert not syncs
    assert not writer.is_durable(1)
    writer.append([owned(4)])
    assert writer.sync()
    assert writer.is_durable(4)
    assert len(syncs) == 2
    close(writer)
    assert len(syncs) == 2


def test_a_slow_disk_is_not_begun_on(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """While commits go to the thread the loop is not held up by their beginning, either."""
    monkeypatch.setattr(pace, "QUICK", 0.0)
    writer = store.claim("r1")
    writer.append(RECORDS)
    assert writer.begin()
    assert writer.sync()
    writer.append([owned(4)])
    assert not writer.begin()
    assert not writer.sync()
    assert not writer.is_durable(4)
    close(writer)
    assert len(list(store.read("r1"))) == 4


@pytest.mark.parametrize("where", ["pwrite", "fdatasync" if hasattr(os, "fdatasync") else "fsync"])
def test_what_was_begun_and_fails_is_told_by_the_sync(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A disk that fails fails the one who waits, whether it is seen at the write or at the sync."""

    def fail(*args: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    writer = store.claim("r1")
    writer.append(RECORDS)
    assert writer.sync()
    writer.append([owned(4)])
    with monkeypatch.context() as patch:
        patch.setattr(os, where, fail)
        assert writer.begin()
        with pytest.raises(JournalFailed, match="Input/output error"):
            writer.sync()
    assert not writer.is_durable(4)
    close(writer)


@NEEDS_PROC
def test_names_survive_a_power_cut_with_the_first_commit(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's file, its folder and the one between are synced behind an owner's first records; once."""
    real, seen = os.fsync, list[str]()

    def fsync(fd: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{fd}").removeprefix(f"{store.root}/"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    (store.root / "runs" / "r1").mkdir(parents=True)  # by an owner that was killed before he saw to the names
    root = store.claim("r1")
    root.append(RECORDS)
    root.flush()
    assert seen == [str(store.root), "runs", "runs/r1"]
    seen.clear()
    (store.folder("r1") / "turns").mkdir()
    for records in ([], [owned(1)]):  # the first owner dies before its first commit
        child = store.claim("r1/a#1.1")
        assert seen == []
        child.append(records)
        child.flush()
        close(child)
    names = ["runs/r1", "runs/r1/turns", "runs/r1/turns/a#1.1"]
    assert seen == names
    again = store.claim("r1/a#1.1")
    for seq in (2, 3):
        again.append([owned(seq)])
        again.flush()
    close(root)
    assert seen == names * 2, "the owner before may have been killed between its first commit and the names"


@pytest.mark.parametrize("whole", [True, False])
def test_a_system_that_is_not_linux_syncs_its_own_way(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """On macOS nothing is begun in advance, and the disk's own cache is emptied, too, where the disk lets it be."""
    asked = []

    def fcntl(fd: int, what: int) -> None:
        asked.append(what)
        if not whole:
            raise OSError(errno.ENOTSUP, "Operation not supported")

    for name in ("posix_fadvise", "fdatasync"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(lines, "F_FULLFSYNC", 51)
    monkeypatch.setattr(lines, "fcntl", fcntl, raising=False)
    monkeypatch.setattr(pace, "QUICK", 1e9)
    writer = store.claim("r1")
    for seq in range(1, 4):
        writer.append([owned(seq)])
        assert writer.begin()
        assert not writer.is_durable(seq)
        writer.sync()
        assert writer.is_durable(seq)
    close(writer)
    assert asked == [51] * 3
    assert [record.seq for record in store.read("r1")] == [1, 2, 3]


@pytest.mark.parametrize("quick", [0.0, 1e9])
def test_one_sync_serves_all_who_wait(
    store: JsonlStore, syncs: list[str], monkeypatch: pytest.MonkeyPatch, quick: float
) -> None:
    """Tasks that append in the same breath share a commit, on a quick disk and on a slow one."""
    monkeypatch.setattr(pace, "QUICK", quick)

    async def main() -> None:
        writer = store.claim("r1")

        async def one() -> None:
            for _ in range(4):
                await writer.durable(writer.append([owned(writer.last + 1)]))

        await asyncio.gather(*(one() for _ in range(50)))
        await writer.close()

    asyncio.run(main())
    assert len(list(store.read("r1"))) == 200
    assert len(syncs) <= 8
    assert ("coterie-journal" in syncs) == (quick == 0.0)


@pytest.mark.parametrize("journals", [1, 30])
def test_a_slow_disk_does_not_hold_the_loop_up_for_long(
    store: JsonlStore, syncs: list[str], monkeypatch: pytest.MonkeyPatch, journals: int
) -> None:
    """After a slow commit the next go to the thread, in all runs; the loop is tried again ever more rarely."""
    monkeypatch.setattr(pace, "QUICK", 0.0)

    async def main() -> None:
        writers = [JsonlStore(store.root).claim(f"r{n}") for n in range(journals)]
        for n in range(30):
            writer = writers[n % journals]
            await writer.durable(writer.append([owned(writer.last + 1)]))
        for writer in writers:
            await writer.close()

    asyncio.run(main())
    assert [n for n, name in enumerate(syncs) if name != "coterie-journal"] == [0, 2, 5, 10, 19]


def test_of_many_runs_that_begin_at_once_on_a_slow_disk_one_is_tried_on_the_loop(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not add up; what was begun is finished there, and one that is fast again is enough for all."""
    monkeypatch.setattr(pace, "QUICK", 0.0)
    writers = [store.claim(f"r{n}") for n in range(20)]
    for writer in writers:
        writer.append([owned(1)])
    assert writers[0].sync()
    assert [n for n, writer in enumerate(writers) if n and writer.begin()] == [2]
    monkeypatch.setattr(pace, "QUICK", 1e9)
    assert writers[2].sync()
    later = store.claim("later")
    later.append([owned(1)])
    assert later.begin()
    for writer in (*writers, later):
        close(writer)


def test_the_thread_ends_with_the_last_writer(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that nobody writes to leaves nothing running, and starts anew when it is needed."""
    monkeypatch.setattr(pace, "QUICK", 0.0)
    for n in range(2):
        write(store, "r1", [owned(2 * n + 1)])

        async def main(seq: int = 2 * n + 2) -> None:
            writer = store.claim("r1")
            writer.append([owned(seq)])
            await writer.durable(seq)
            await writer.close()

        asyncio.run(main())
        for thread in threading.enumerate():
            if thread.name == "coterie-journal":
                thread.join(10)
                assert not thread.is_alive()


@pytest.mark.parametrize("where", ["pwrite", "fdatasync" if hasattr(os, "fdatasync") else "fsync"])
@pytest.mark.parametrize("quick", [0.0, 1e9])
def test_a_disk_that_fails_ends_the_owner(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch, where: str, quick: float
) -> None:
    """All who wait are told; nothing can be appended any more, though the disk recovers; the journal still reads."""
    monkeypatch.setattr(pace, "QUICK", quick)
    real = getattr(os, where)

    def fail(fd: int, *rest: Any) -> int:
        if rest:
            data, at = rest
            real(fd, data[: len(data) - 100], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        writer = store.claim("r1")
        await writer.durable(writer.append(RECORDS))
        with monkeypatch.context() as patch:
            patch.setattr(os, where, fail)
            waits = [writer.durable(writer.append([finished(seq, f"{seq}" * 400)])) for seq in (4, 5)]
            told = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(error) for error in told] == [JournalFailed, JournalFailed]
        assert "No space left on device" in str(told[0])
        assert not writer.is_durable(4)
        with pytest.raises(JournalFailed, match="No space left"):
            writer.append([owned(6)])
        with pytest.raises(JournalFailed, match="No space left"):
            await writer.durable(3)
        await writer.close()

    asyncio.run(main())
    assert list(store.read("r1"))[:3] == RECORDS
    writer = store.claim("r1")
    assert (writer.repaired is not None) == (where == "pwrite")
    last = writer.last
    writer.append([owned(last + 1)])
    close(writer)
    assert [record.seq for record in store.read("r1")] == list(range(1, last + 2))


def test_a_full_disk_for_real(tmp_path: Path) -> None:
    """A process at its file size limit gets one clear error, and what it left reads and can be continued."""
    script = """
        import asyncio, sys
        from pathlib import Path
        from coterie.errors import JournalFailed
        from coterie.history.journal.jsonl import JsonlStore
        from coterie.history.journal.records import RunOwned

        async def main():
            writer = JsonlStore(Path(sys.argv[1])).claim("r1")
            for seq in range(1, 10_000):
                try:
                    await writer.durable(writer.append([RunOwned(seq=seq, epoch=seq)]))
                except JournalFailed as failed:
                    print(seq, failed)
                    break
            await writer.close()

        asyncio.run(main())
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    told = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True, text=True, check=True, preexec_fn=limit,
    )  # fmt: skip
    failed_at = int(told.stdout.split()[0])
    assert "File too large" in told.stdout
    store = JsonlStore(tmp_path)
    assert [record.seq for record in store.read("r1")] == list(range(1, failed_at))
    writer = store.claim("r1")
    assert writer.repaired is not None
    assert writer.last == failed_at - 1
    close(writer)


def test_a_close_during_a_sync_keeps_the_order(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the thread is still writing comes before what the close writes, and its waiter is told."""
    monkeypatch.setattr(pace, "QUICK", 0.0)

    async def main() -> None:
        writer = store.claim("r1")
        await writer.durable(writer.append([owned(1)]))
        waiting = asyncio.create_task(writer.durable(writer.append([owned(2)])))
        await asyncio.sleep(0)
        writer.append([owned(3)])
        await writer.close()
        await waiting
        await writer.durable(3)

    asyncio.run(main())
    assert [record.seq for record in store.read("r1")] == [1, 2, 3]


def test_a_loop_that_ends_half_way_loses_nothing(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is interrupted while it waits can still close its writer afterwards."""
    monkeypatch.setattr(pace, "QUICK", 0.0)

    async def main() -> JsonlWriter:
        writer = store.claim("r1")
        await writer.durable(writer.append([owned(1)]))
        waiting = asyncio.create_task(writer.durable(writer.append([owned(2)])))
        await asyncio.sleep(0)
        waiting.cancel()
        return writer

    close(asyncio.run(main()))
    assert [record.seq for record in store.read("r1")] == [1, 2]


def test_a_follower_sees_what_comes_while_it_reads_the_end(store: JsonlStore) -> None:
    """A run that is at rest may have gone on since: its follower ends only when it finds nothing new."""
    begin: list[Record] = [RunStarted(seq=1, at=1.0, run="r1", engine="flow"), owned(2)]
    parts: list[list[Record]] = [[RunStopped(seq=n, at=float(n), reason="waiting")] for n in (3, 4, 5)]
    path = write(store, "r1", begin + parts.pop(0))

    async def main() -> list[int]:
        seen = []
        async for record in store.follow("r1"):
            seen.append(record.seq)
            if isinstance(record, RunStopped) and parts:
                with path.open("ab") as file:
                    file.write(Encoder(sealed=True).encode(parts.pop(0)))
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [1, 2, 3, 4, 5]
