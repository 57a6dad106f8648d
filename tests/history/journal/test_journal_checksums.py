"""Damage that is still JSON: every record carries a checksum, and a journal without any reads as before."""

import asyncio
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import JournalUnreadable
from coterie.history.journal import codec
from coterie.history.journal.codec import HEAD, Decoder, Encoder
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.records import Record, RunOwned, RunStarted, RunStopped, TurnFinished, TurnStarted, Usage

COMMITS: list[list[Record]] = [
    [RunStarted(seq=1, at=1.0, run="r1", engine="flow"), RunOwned(seq=2, at=1.5, epoch=1)],
    [TurnStarted(seq=3, at=2.0, turn="a#1", agent="a", cause=(1, 0))],
    [TurnFinished(seq=4, at=3.25, turn="a#1", attempt=1, text="long " * 250, usage=Usage(cost=0.5))],
    [RunStopped(seq=5, at=4.0, reason="max_turns")],
]
RECORDS = [record for commit in COMMITS for record in commit]


def journal(folder: Path) -> bytes:
    """The bytes of a journal of several commits, one of them with a text line."""
    store = JsonlStore(folder)
    for commit in COMMITS:
        writer = store.claim("r1")
        writer.append(commit)
        writer.give_up()
    return (store.folder("r1") / JOURNAL).read_bytes()


def flips(data: bytes, bits: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    for at in range(len(data)):
        for bit in bits:
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            yield at, bytes(flipped)


def read(data: bytes) -> list[Record]:
    return list(Decoder(JOURNAL).read(io.BytesIO(data)))


def attempt(data: bytes) -> tuple[list[Record] | None, int]:
    """The records in *data*, or None and the line that is refused."""
    try:
        return read(data), 0
    except JournalUnreadable as error:
        assert str(error).startswith(f"{JOURNAL}:{error.line}: ")  # noqa: PT017 - most flips are refused
        return None, error.line


@pytest.mark.parametrize(("chunk", "bits"), [(1 << 15, range(8)), (1, (0, 4))], ids=["whole", "line by line"])
def test_no_flipped_bit_is_read_as_another_value(
    chunk: int, bits: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused with file and line, or read as a torn end where it lies in the last commit."""
    monkeypatch.setattr(codec, "_CHUNK", chunk)
    data = journal(tmp_path)
    last_commit = data.rindex(b'{"topic":"run.stopped"')
    in_long_text = range(data.index(b"long long") + 20, data.index(b'"}', data.index(b"long long")) - 20)
    for at, flipped in flips(data, bits):
        if at in in_long_text and at % 97:
            continue
        found, line = attempt(flipped)
        if found is None:
            assert abs(line - data[:at].count(b"\n") - 1) <= 1, f"byte {at} was reported on line {line}"
        else:
            assert (at >= last_commit, found) == (True, RECORDS[:-1]), f"byte {at} was read as {found}"


def test_the_error_says_what_to_do(tmp_path: Path) -> None:
    """A value that was changed by hand is refused in the same way, by readers and by an owner, and stays as it is."""
    data = journal(tmp_path).replace(b'"cost":0.5', b'"cost":0.1')
    path = tmp_path / "runs/r1" / JOURNAL
    path.write_bytes(data)

    told = r"journal\.jsonl:5: .*checksum.* restore the file from a backup, or"
    with pytest.raises(JournalUnreadable, match=told):
        list(JsonlStore(tmp_path).read("r1"))
    with pytest.raises(JournalUnreadable, match=told):
        JsonlStore(tmp_path).claim("r1")
    assert path.read_bytes() == data


def test_a_record_without_a_checksum_is_refused_where_there_are_checksums(tmp_path: Path) -> None:
    """A line that somebody added, or from which the field was cut, is no record of this journal."""
    data = journal(tmp_path)

    with pytest.raises(JournalUnreadable, match=r"journal\.jsonl:7: .*checksum is missing or wrong"):
        read(data + b'{"topic":"run.owned","seq":6,"epoch":2}\n')


@given(st.binary(min_size=1, max_size=40).filter(lambda tail: tail.strip(b"\t\0") != b""))
def test_a_tail_without_a_commit_end_is_still_torn(tail: bytes) -> None:
    """Whatever follows the last commit and does not end like one was never durable."""
    data = HEAD + Encoder(sealed=True).encode(RECORDS)[:-1] + b" \n"

    assert read(data + b"{" + tail.replace(b"\n", b"")) == RECORDS


def test_a_journal_without_checksums_reads_as_before_and_is_continued_without(tmp_path: Path) -> None:
    """The first bytes decide for the whole file, so that a line of an old journal needs no checksum after an append."""
    store = JsonlStore(tmp_path)
    folder = store.folder("r1")
    folder.mkdir(parents=True)
    old = b" " + Encoder().encode(RECORDS)[:-1] + b" \n"
    (folder / JOURNAL).write_bytes(old)

    writer = store.claim("r1")
    writer.append([RunOwned(seq=6, at=5.0, epoch=2)])
    writer.give_up()

    data = (folder / JOURNAL).read_bytes()
    assert data.startswith(old)
    assert b'"crc"' not in data
    assert [record.seq for record in store.read("r1")] == [1, 2, 3, 4, 5, 6]


def test_the_lines_stay_json_lines(tmp_path: Path) -> None:
    """Every line is one JSON object, with the checksum as its last field; a text line has its hash instead."""
    data = journal(tmp_path)

    lines = [json.loads(line) for line in data.splitlines()]
    assert data.startswith(HEAD)
    assert [list(line)[-1] for line in lines] == ["crc", "crc", "crc", "text", "crc", "crc"]


def test_a_follower_takes_new_records_with_their_checksums(tmp_path: Path) -> None:
    """Reading goes on where it ended, in the same format."""
    store = JsonlStore(tmp_path, poll=0.001)

    async def main() -> list[int]:
        writer = store.claim("r1")
        await writer.durable(writer.append(COMMITS[0]))
        seen = []
        async for record in store.follow("r1"):
            seen.append(record.seq)
            if record.seq == 2:
                for commit in COMMITS[1:]:
                    await writer.durable(writer.append(commit))
                await writer.close()
        return seen

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]
