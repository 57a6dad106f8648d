"""A reader of a journal keeps the latest long texts, and reads the others again when a record refers to them."""

import os
import tracemalloc
from pathlib import Path

import pytest
from steps import most_held

from coterie.errors import JournalUnreadable
from coterie.history.journal import lines
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.lines import LongJournal, Reading, rare
from coterie.history.journal.records import RunStarted, TurnFinished
from coterie.history.journal.texts import KEPT

TURNS = 1200


def _text(n: int) -> str:
    return f"{n} " + "abcdé" * 1000


def _journal(store: JsonlStore) -> Path:
    """A run whose turns answer with long texts; at the end, the first text comes again."""
    writer = store.claim("r")
    writer.append([RunStarted(seq=1, run="r", engine="flow")])
    for n in range(TURNS):
        writer.append([TurnFinished(seq=n + 2, turn=f"a#{n}", attempt=1, text=_text(n))])
    writer.append([TurnFinished(seq=TURNS + 2, turn="last#1", attempt=1, text=_text(0))])
    writer.flush()
    writer.give_up()
    return store.file("r")


def test_the_memory_of_a_reader_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    """A large journal is read in the memory of its latest texts; all texts come back whole."""
    store = JsonlStore(tmp_path)
    size = _journal(store).stat().st_size
    tracemalloc.start()
    try:
        found = sum(len(one.text) for one in store.read("r") if isinstance(one, TurnFinished))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == sum(len(_text(n)) for n in range(TURNS)) + len(_text(0))
    assert size > 6 * KEPT
    assert peak < size / 2, (peak, size)


def test_an_early_text_is_read_again(tmp_path: Path) -> None:
    """A record may refer to a text that the reader no longer has in memory; a later text does not replace it."""
    store = JsonlStore(tmp_path)
    _journal(store)
    texts = [one.text for one in store.read("r") if isinstance(one, TurnFinished)]
    assert texts == [*map(_text, range(TURNS)), _text(0)]


def test_a_follower_that_waits_holds_no_text(tmp_path: Path) -> None:
    """It may follow a thousand child runs; a text that comes again is read from the file."""
    store = JsonlStore(tmp_path)
    writer = store.claim("r")
    reading = Reading(store.file("r"))
    for n in range(1, 4):
        writer.append([RunStarted(seq=1, run="r", engine="flow")] if n == 1 else [])
        writer.append([TurnFinished(seq=n + 1, turn=f"a#{n}", attempt=1, text=_text(0))])
        writer.flush()
        found = [one.text for one in reading.news() if isinstance(one, TurnFinished)]
        assert found == [_text(0)]
        assert len([*reading.decoder.texts]) == 1
        assert reading.decoder.texts._kept == {}
    writer.give_up()


def test_a_text_that_changed_while_the_journal_is_read_is_refused(tmp_path: Path) -> None:
    """What is read again must be what its hash names."""
    store = JsonlStore(tmp_path)
    path = _journal(store)
    records = store.read("r")
    for _ in range(TURNS // 2):
        next(records)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"text":"0 abc', b'"text":"0 xyz', 1))
    with pytest.raises(JournalUnreadable, match="damaged"):
        list(records)


def test_another_text_in_the_place_of_one_is_refused(tmp_path: Path) -> None:
    """A line that is whole, but has another text than the record names, is no answer."""
    store = JsonlStore(tmp_path)
    path = _journal(store)
    records = store.read("r")
    for _ in range(TURNS // 2):
        next(records)
    data = path.read_bytes()
    first, other = (next(one for one in data.splitlines() if b'"text":"%d abc' % n in one) for n in (0, 1))
    assert len(first) == len(other)
    path.write_bytes(data.replace(first, other, 1))
    with pytest.raises(JournalUnreadable, match="whose line has changed since"):
        list(records)


def test_the_records_of_a_long_journal_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a sequence as any other, and holding it takes little memory."""
    monkeypatch.setattr(lines, "KEPT", 100_000)
    store = JsonlStore(tmp_path)
    size = _journal(store).stat().st_size
    whole, found = list(store.read("r")), store.load_now("r")

    assert isinstance(found, LongJournal)
    assert (len(found), list(found)) == (len(whole), whole)
    assert [found[k] for k in (0, 700, -1, len(whole) - 1)] == [whole[k] for k in (0, 700, -1, len(whole) - 1)]
    for part in (slice(3, 7), slice(None, 5), slice(-3, None), slice(7, 3), slice(2, 9_000)):
        assert list(found[part]) == whole[part]
    assert list(found[10:20][2:4]) == whole[12:14]
    assert list(rare(found)) == [whole[0]]
    assert list(rare(found[1:])) == []
    with pytest.raises(IndexError):
        found[len(whole)]
    assert most_held(lambda: sum(1 for _ in store.load_now("r"))) < size / 2


def test_a_long_journal_that_has_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read once is not silently less when it is read again."""
    monkeypatch.setattr(lines, "KEPT", 0)
    store = JsonlStore(tmp_path)
    path = _journal(store)
    found = store.load_now("r")
    os.truncate(path, path.read_bytes().index(b'"seq":3,') - 100)
    with pytest.raises(JournalUnreadable, match="changed since"):
        list(found)
