"""The lines of a journal."""

import gc
import hashlib
import io
from pathlib import Path

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from journal_strategies import journals

from coterie.errors import JournalUnreadable
from coterie.history.journal import codec
from coterie.history.journal.codec import LIMIT, Decoder, Encoder, NotJson
from coterie.history.journal.records import Record, RunOwned, RunStarted, TurnFinished, TurnStarted


def decode(data: bytes) -> list[Record]:
    decoder = Decoder("here")
    found = [decoder.decode(line) for line in data.splitlines(keepends=True)]
    return [record for record in found if record is not None]


def numbered(records: list[Record]) -> list[Record]:
    return [msgspec.structs.replace(record, seq=n) for n, record in enumerate(records, 1)]


def finished(seq: int, text: str, **outputs: object) -> TurnFinished:
    return TurnFinished(seq=seq, turn="a#1", attempt=1, text=text, outputs=outputs)


QUOTE = codec._ESCAPED_QUOTE
TEXT_LINE = b'{"topic":"text","hash":"%s","text":"x"}\n' % hashlib.sha256(b"x").hexdigest().encode()


@given(journals, st.integers(1, 4))
def test_what_is_written_reads_the_same(records: list[Record], step: int) -> None:
    """Every value comes back as it was, however the records were spread over appends; every text is written once."""
    records = numbered(records)
    encoder = Encoder()

    data = b"".join(encoder.encode(records[at : at + step]) for at in range(0, len(records), step))

    assert decode(data) == records
    lines = [msgspec.json.decode(line) for line in data.splitlines()]
    hashes = [line["hash"] for line in lines if line["topic"] == "text"]
    assert len(hashes) == len(set(hashes))


@given(journals, st.integers(40, 200), st.integers(1, 4))
def test_the_short_way_writes_what_the_long_way_writes(records: list[Record], limit: int, step: int) -> None:
    """Long texts are found on the lines where no text holds a quotation mark; else the records are walked."""
    records = numbered(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "LIMIT", limit)
        short, long = Encoder(), Encoder()
        for at in range(0, len(records), step):
            some = records[at : at + step]
            patch.setattr(codec, "_ESCAPED_QUOTE", QUOTE)
            found = short.encode(some)
            patch.setattr(codec, "_ESCAPED_QUOTE", b"")
            assert long.encode(some) == found


def test_a_long_text_with_quotation_marks_and_a_long_key() -> None:
    """Neither is mistaken for the other, whatever else the line holds."""
    text, key = 'said "no" \\' * 200, "k" * (LIMIT + 1)
    records: list[Record] = [finished(1, text, **{key: key}), finished(2, "ü" * LIMIT, n=[1] * LIMIT, **{key: "\\"})]
    for some in (records, records[:1], [msgspec.structs.replace(records[1], seq=1)]):
        data = Encoder().encode(some)
        assert decode(data) == some
        assert max(len(line["text"]) for line in map(msgspec.json.decode, data.splitlines()) if "hash" in line) >= LIMIT


@given(
    journals,
    st.integers(1, 3000),
    st.sampled_from([b"", b"oops", b"oops\n", b"\x00", TEXT_LINE]),
)
def test_a_file_reads_the_same_in_pieces_of_any_size(records: list[Record], size: int, tail: bytes) -> None:
    """Reading many lines at once gives what reading them one by one gives, up to a torn last line."""
    records = numbered(records)
    data = Encoder().encode(records)
    decoder = Decoder("here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_CHUNK", size)
        assert list(decoder.read(io.BytesIO(data + tail))) == records

    assert decoder.last == len(records)
    assert decoder.end == len(data) + (len(tail) if b"text" in tail else 0)


@given(journals.filter(bool), st.integers(1, 3000), st.data())
def test_damage_is_named_in_pieces_of_any_size(records: list[Record], size: int, data: st.DataObject) -> None:
    """The line is the same however much was read at once."""
    lines = Encoder().encode(numbered(records)).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    lines.insert(
        at, data.draw(st.sampled_from([b"\n", b"oops\n", b"7\n", b'{"topic":"run.owned","seq":0,"epoch":1}\n']))
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_CHUNK", size)
        with pytest.raises(JournalUnreadable) as caught:
            list(Decoder("here").read(io.BytesIO(b"".join(lines))))

    assert caught.value.line == at + 1


def test_a_text_that_is_not_what_its_hash_names_is_damage() -> None:
    """A flipped bit in a long text is still JSON; it is found all the same."""
    line = TEXT_LINE.replace(b'"x"', b'"y"')

    with pytest.raises(JournalUnreadable, match=r"here:1: .*damaged"):
        Decoder("here").decode(line)


def test_a_long_text_stands_before_the_first_record_that_holds_it_and_nowhere_else() -> None:
    """Later records, in the same append or another, hold a reference; so does a text inside outputs."""
    text = "long " * 1000
    encoder = Encoder()

    data = encoder.encode([finished(1, text), finished(2, "short", deep=[{"again": text}])])
    data += encoder.encode([finished(3, text)])

    topics = [msgspec.json.decode(line)["topic"] for line in data.splitlines()]
    assert topics == ["text", "turn.finished", "turn.finished", "turn.finished"]
    assert data.count(b"long ") == 1000
    assert msgspec.json.decode(data.splitlines()[0])["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert [record.text for record in decode(data) if isinstance(record, TurnFinished)] == [text, "short", text]


@pytest.mark.parametrize(("text", "lines"), [("é" * (LIMIT // 2), 1), ("é" * (LIMIT // 2) + "x", 2)])
def test_the_limit_counts_bytes(text: str, lines: int) -> None:
    """A text of exactly the limit stands in its record; one byte more, and it has its own line."""
    assert len(Encoder().encode([finished(1, text)]).splitlines()) == lines


def test_an_encoder_that_continues_a_journal_knows_its_texts() -> None:
    """What was written before the claim is not written again."""
    first = Encoder().encode([finished(1, "x" * 2000)])
    decoder = Decoder("here")
    for line in first.splitlines(keepends=True):
        decoder.decode(line)

    second = Encoder(decoder.texts).encode([finished(2, "x" * 2000)])

    assert len(second) < 300
    assert decode(first + second)[1] == finished(2, "x" * 2000)


def test_a_value_that_looks_like_a_reference_stays_what_it_is() -> None:
    """Users may write what they like, the marker included."""
    record = finished(1, "@text:" + "0" * 64, other='say "@text:"')

    assert decode(Encoder().encode([record])) == [record]


def test_half_a_surrogate_pair_survives() -> None:
    """JSON from an agent can hold one; UTF-8 cannot, so it is written with escapes."""
    record = finished(1, "broken \ud83d and é", inner="\udc80")

    assert decode(Encoder().encode([record])) == [record]


def test_a_record_that_json_cannot_carry_leaves_no_trace() -> None:
    """The error names the record; the texts of the refused append are still to be written."""
    encoder = Encoder()

    with pytest.raises(ValueError, match=r"record 2 \(turn.finished\) cannot be written"):
        encoder.encode([finished(1, "x" * 2000), finished(2, "", path=Path("a"))])

    assert decode(encoder.encode([finished(1, "x" * 2000)])) == [finished(1, "x" * 2000)]


@bundle(
    ("line", "reason"),
    [
        (b'{"topic":"run.exploded","seq":2}', "topic 'run.exploded' is unknown"),
        (b'{"topic":"run.owned","seq":2}', "not a run.owned record: .*epoch"),
        (b'{"topic":"run.started","seq":2,"schema":99,"run":7}', "record format 99"),
        (b'{"topic":"run.started","seq":2,"schema":99,"run":"r","engine":"e"}', "record format 99"),
        (b'{"topic":"run.owned","seq":3,"epoch":1}', "expected record 2, found record 3"),
        (b'{"topic":"run.owned","seq":1,"epoch":1}', "expected record 2, found record 1"),
        (b'{"topic":"turn.started","seq":2,"turn":"@text:00","agent":"a"}', "'@text:00', which no earlier line"),
        (b"[1, 2]", "not a record"),
        (b"{}", "topic None"),
        (b'{"seq":2', "not JSON"),
        (b"\x00\x00\x00", "not JSON"),
        (b'{"topic":"run.exploded", oops', "not JSON"),
        (b'{"topic":"run.stopped","seq":2,"reason":"\xff"}', "not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: bytes, reason: str) -> None:
    """The error says which line of which journal, and why."""
    decoder = Decoder("r/journal.jsonl")
    decoder.decode(b'{"topic":"run.owned","seq":1,"epoch":1}\n')

    with pytest.raises(JournalUnreadable, match=reason) as caught:
        decoder.decode(line + b"\n")

    assert str(caught.value).startswith("r/journal.jsonl:2: ")
    assert isinstance(caught.value, NotJson) == ("not JSON" in reason)


def test_fields_of_a_later_coterie_are_ignored() -> None:
    """A field added with a default does not make a journal unreadable for earlier readers."""
    assert decode(b'{"topic":"run.owned","seq":1,"epoch":4,"mood":"good"}\n') == [RunOwned(seq=1, epoch=4)]


def test_quoting_a_long_text_costs_a_reference() -> None:
    """A journal grows with what is new: the 500th record that quotes a text adds less than 300 bytes."""
    encoder, history = Encoder(), "so far " * 5000

    sizes = [len(encoder.encode([finished(n, history, before=history)])) for n in range(1, 501)]

    assert sizes[0] > len(history)
    assert max(sizes[1:]) < 300


def test_a_short_record_is_one_plain_line() -> None:
    """What people see when they open the file: topic first, defaults left out."""
    lines = Encoder().encode(
        [RunStarted(seq=1, at=2.5, run="r", engine="flow"), TurnStarted(seq=2, turn="a#1", agent="a")]
    )

    assert lines == (
        b'{"topic":"run.started","seq":1,"at":2.5,"run":"r","engine":"flow"}\n'
        b'{"topic":"turn.started","seq":2,"turn":"a#1","agent":"a"}\n'
    )


@pytest.mark.parametrize("kind", [tuple, list])
def test_nothing_stays_behind_a_write(kind: type) -> None:
    """An owner writes for weeks: no object is left by each of its writes, whatever sequence the records came in."""
    encoder, record = Encoder(sealed=True), RunOwned(seq=1, epoch=1)

    def grown() -> int:
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(500):
            encoder.encode(kind((record,)))
        gc.collect()
        return len(gc.get_objects()) - before

    grown()
    assert grown() < 50
