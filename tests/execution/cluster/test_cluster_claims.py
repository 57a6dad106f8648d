"""Long texts leave the history and come back."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("temporalio")

from temporalio.api.common.v1 import Payload

from coterie.execution.cluster.claims import LARGEST, TextClaims
from coterie.history.journal.codec import split
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import TurnFinished

LONG = "é" * 800


class MemoryBlobs:
    """The blobs of an export."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put_blob(self, data: bytes) -> str:
        self.kept[digest := hashlib.sha256(data).hexdigest()] = data
        return digest

    async def blob(self, hash: str) -> bytes:
        return self.kept[hash]


def there_and_back(data: bytes, encoding: bytes = b"json/plain") -> tuple[Payload, Payload, dict[str, bytes]]:
    async def main() -> tuple[Payload, Payload]:
        [stored] = await TextClaims(blobs).encode([Payload(metadata={"encoding": encoding, "more": b"x"}, data=data)])
        [back] = await TextClaims(blobs).decode([stored])  # on another node: nothing is remembered
        return stored, back

    blobs: Any = MemoryBlobs()
    stored, back = asyncio.run(main())
    return stored, back, blobs.kept


TEXTS = st.text(max_size=20) | st.sampled_from([LONG, "x" * 1000, "x" * 1001, "@text:", "@text:abc", "@text:" + LONG])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_comes_back(value: Any) -> None:
    """Whatever JSON holds is the same after the journey, with its metadata, on a node that has seen nothing of it."""
    stored, back, _ = there_and_back(msgspec.json.encode(value))

    assert msgspec.json.decode(back.data) == value
    assert dict(back.metadata) == {"encoding": b"json/plain", "more": b"x"}
    assert not isinstance(value, str) or len(stored.data) <= 1002


def test_a_text_lies_where_the_journal_has_it() -> None:
    """A turn's answer in the history and in its record are one row of the export."""
    stored, _, kept = there_and_back(msgspec.json.encode({"answer": {"text": LONG, "again": LONG}}))

    assert len(stored.data) < 250
    assert kept == split(TurnFinished(seq=1, turn="a#1", attempt=1, text=LONG))[1]


def test_what_is_short_stays_as_it_is() -> None:
    """Nothing is written for a payload below 1 kB."""
    stored, _, kept = there_and_back(b'{"a": "b"}')

    assert (stored.data, kept) == (b'{"a": "b"}', {})


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (msgspec.json.encode(list(range(LARGEST))), b"json/plain"),
        (b'"' + b"\\ud800" * LARGEST + b'"', b"json/plain"),
        (bytes(2000), b"binary/plain"),
    ],
)
def test_a_large_payload_is_kept_whole(data: bytes, encoding: bytes) -> None:
    """Many short texts, other encodings, and JSON that is not text leave the history, too, byte for byte."""
    stored, back, kept = there_and_back(data, encoding)

    assert len(stored.data) == 64
    assert (back.data, back.metadata["encoding"], len(kept)) == (data, encoding, 1)


def test_a_text_is_written_once_for_a_run(tmp_path: Path) -> None:
    """A prompt that is in a request and in its record costs one write."""

    async def main() -> int:
        export = FolderExport(tmp_path)
        claims, puts = TextClaims(export), 0
        put = export.put_blob

        async def counted(data: bytes) -> str:
            nonlocal puts
            puts += 1
            return await put(data)

        export.put_blob = counted  # type: ignore[method-assign]
        for _ in range(5):
            await claims.encode([Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode([LONG]))])
        return puts

    assert asyncio.run(main()) == 1
