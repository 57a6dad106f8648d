"""Encode records as lines of JSON, and decode them.

Each line is one record, whose type is its `topic`. A text above `LIMIT` bytes is written only once, on a separate line
before the first record that contains it; this record and all later ones have a reference instead: `@text:` and the
text's SHA-256. So a journal grows only with new content. Callers never see references: texts come back whole.

A text that looks like a reference is always written as a text line; no other escaping is needed. Values are JSON
values; NaN and the infinities, which JSON lacks, become null.

A commit consists of the lines that one sync made durable together. Its last line ends in a blank (`MARK`), and a
journal with such marks begins with a blank; journals of early versions do not mark the end of commits. After the last
commit, a file may have padding for the next ones, filled with tabs (`ROOM`), which occur nowhere else in a journal.
This distinguishes a commit that a power cut left incomplete from damage: a line with a tab in it was not written
completely. If the file had just grown, there may be zeros instead of tabs.

A journal that begins with two blanks (`HEAD`) has checksums: the last field of every record is `crc`, the CRC-32 of the
line up to that field. Text lines need none, since their hash covers them. In such a journal, a last commit that ends in
its mark and has no gap was written completely: if it cannot be read, it is damaged, not torn. The first bytes decide
for the whole file: records appended to an older journal have no checksum.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from coterie.errors import JournalUnreadable
from coterie.history.journal.records import RECORDS, SCHEMA, AnyRecord, Record, RunStarted
from coterie.history.journal.texts import Texts

LIMIT = 1000
"""The longest text, in bytes of UTF-8, that is written inside a record."""
MARK = b" "
"""Begins a journal, and ends the last line of a commit before its newline. JSON ignores it."""
HEAD = MARK * 2
"""Begins a journal with checksums. No single bit flip turns it into other white space or into JSON."""
ROOM = b"\t"
"""Fills the padding after the last commit. JSON ignores it, and no complete line contains it."""

S = TypeVar("S", bound=Struct)

REFERENCE = "@text:"
"""Begins a reference to a text; its hash follows."""
_QUOTED_REFERENCE = b'"@text:'


class TextLine(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="text", tag_field="topic", gc=False):
    """A text that records refer to.

    Attributes:
        hash: SHA-256 of the text's UTF-8, in hex.
        escaped: Whether *text* is written with Python's escapes, because it has half a surrogate pair, which UTF-8
            cannot encode.
    """

    hash: str
    text: str
    escaped: bool = False

    @property
    def whole(self) -> str:
        """The text as in the record."""
        return self.text.encode("ascii").decode("unicode_escape") if self.escaped else self.text


_to_json = msgspec.json.Encoder().encode
_to_lines = msgspec.json.Encoder().encode_lines
_from_json = msgspec.json.Decoder(AnyRecord | TextLine).decode
_to_text = msgspec.json.Decoder(str).decode
_from_lines = msgspec.json.Decoder(AnyRecord | TextLine).decode_lines
_TOPICS = frozenset(str(kind.__struct_config__.tag) for kind in RECORDS) | {"text"}
_PLAIN = frozenset(RECORDS) - {RunStarted}
_ESCAPED_QUOTE = b'\\"'
_ATOMS = frozenset({int, float, bool, type(None)})
_NEWLINE = ord("\n")
_COMMIT_END = MARK + b"\n"
_UNWRITTEN = ROOM + b"\0"
_CHUNK = 1 << 15
_SEAL = b',"crc":%d}'
_SEALED_END = _SEAL + b"\n"
_SEAL_KEY = b',"crc":'
_TEXT_LINE = b'{"topic":"text",'
_GAP = re.compile(rb"\t|\0(?!\n)")
"""Bytes of a commit that never reached the disk. A lost sector is larger than the mark before the last newline."""


class NotJson(JournalUnreadable):
    """A line is not JSON. At the very end of a journal this is left by a crash; elsewhere it is damage."""


class Encoder:
    """Encodes the records of one journal.

    Args:
        written: The hashes of the texts that are already in the journal.
        sealed: Whether to write checksums; the journal then begins with `HEAD`.
    """

    def __init__(self, written: Iterable[str] = (), *, sealed: bool = False) -> None:
        self._written, self._sealed = set(written), sealed

    def encode(self, records: Sequence[Record]) -> bytes:
        """Encode *records* as lines with newlines, after the lines of their new texts.

        Raises:
            ValueError: If a record has a value that JSON cannot represent; then none of *records* counts as written.
        """
        try:
            data = _to_lines(list(records))  # msgspec 0.22 never frees the iterator of another sequence
            if _QUOTED_REFERENCE not in data:
                if len(data) <= LIMIT:
                    return _seal(data) if self._sealed else data
                if _ESCAPED_QUOTE not in data:
                    data = self._shorten(data)
                    return _seal(data) if self._sealed else data
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass  # the slow path finds the record at fault, or can encode it
        lines: list[bytes] = []
        fresh: set[str] = set()
        for record in records:
            try:
                lines.append(self._line(record, lines, fresh))
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                topic = record.__struct_config__.tag
                raise ValueError(f"record {record.seq} ({topic}) cannot be written as JSON: {error}") from error
        self._written |= fresh
        lines.append(b"")
        data = b"\n".join(lines)
        return _seal(data) if self._sealed else data

    def _shorten(self, lines: bytes) -> bytes:
        """Replace long texts in *lines*, where each quotation mark begins or ends a text, with references.

        An encoded text is never shorter than the text. The key of a dict does not count, since a colon follows it;
        topics, which are texts only in JSON, are short.
        """
        whole: list[bytes] = []
        for line in lines[:-1].split(b"\n"):
            parts = line.split(b'"')
            for k in [k for k, size in enumerate(map(len, parts)) if size > LIMIT]:
                if k % 2 and not parts[k + 1].startswith(b":"):
                    text = _to_text(b'"%s"' % parts[k])
                    if len(text.encode()) > LIMIT:
                        parts[k] = self._refer(text, False, whole, self._written).encode()
            whole.append(b'"'.join(parts))
        whole.append(b"")
        return b"\n".join(whole)

    def _refer(self, text: str, escaped: bool, lines: list[bytes], fresh: set[str]) -> str:
        """Make a reference to *text*; if it is new, add its line to *lines* and its hash to *fresh*."""
        digest = text_hash(text)
        if digest not in self._written and digest not in fresh:
            fresh.add(digest)
            kept = text.encode("unicode_escape").decode("ascii") if escaped else text
            lines.append(_to_json(TextLine(hash=digest, text=kept, escaped=escaped)))
        return REFERENCE + digest

    def _line(self, record: Record, lines: list[bytes], fresh: set[str]) -> bytes:
        """Encode *record* as a line; add the lines of its new texts to *lines* and their hashes to *fresh*."""

        def shorten(text: str) -> str:
            escaped, size = _measure(text)
            if size <= LIMIT and not escaped and not text.startswith(REFERENCE):
                return text
            return self._refer(text, escaped, lines, fresh)

        return _to_json(_map_fields(record, shorten))


class Decoder:
    """Decodes the lines of one journal, in order.

    Attributes:
        last: The seq of the last record read.
        end: How many bytes have been read.
        texts: The texts read so far.
        sealed: Whether the records carry checksums; known once the first bytes are read.

    Args:
        place: The journal's name, for errors.
        verified: Whether this process has already checked the checksums, at its claim.
    """

    def __init__(self, place: str, *, verified: bool = False) -> None:
        self.place, self._verified = place, verified
        self.last = 0
        self.end = 0
        self.texts = Texts()
        self.sealed = False
        self._line = 0
        self._marked = False  # whether the journal marks the end of its commits, which early versions do not

    def read(self, file: BinaryIO) -> Iterator[Record]:
        """Decode the rest of *file* up to a torn line; afterwards `end` is the position of that line.

        A line is torn if it lacks its newline, or if it is in the last commit and is not JSON; with checksums, only if
        that commit also has a gap or lacks its end.

        Raises:
            JournalUnreadable: If any other line cannot be read.
        """
        self.texts.file, self.texts.start = file, self.end - file.tell()
        try:
            yield from self._read(file)
        finally:
            self.texts.close()

    def _read(self, file: BinaryIO) -> Iterator[Record]:
        while chunk := file.read(_CHUNK):
            if not self.end:
                self._marked = chunk[0] in MARK + _UNWRITTEN
            if chunk[-1] != _NEWLINE:
                chunk = (chunk + file.readline()).rstrip(ROOM)
            if not self.end:
                self.sealed = chunk.startswith(HEAD) and not self._verified
            if plain := self._plain(chunk):
                yield from plain
                continue
            *lines, torn = chunk.split(b"\n")
            for n, line in enumerate(lines):
                try:
                    record = self.decode(line + b"\n")
                except NotJson:
                    rest = b"\n".join([*lines[n:], torn]) + file.read()
                    if self._goes_on(rest) or (self.sealed and _is_whole(rest)):
                        raise
                    return
                if record is not None:
                    yield record
            if torn:
                return

    def _goes_on(self, rest: bytes) -> bool:
        """Whether *rest* has more than one torn commit can leave."""
        _, _, behind = rest.partition(_COMMIT_END if self._marked else b"\n")
        return bool(behind.strip(_UNWRITTEN))

    def _plain(self, chunk: bytes) -> list[Record] | None:
        """Decode all records in *chunk* at once, with the same result as `decode`; None if that is not possible."""
        if not chunk.endswith(b"\n") or _QUOTED_REFERENCE in chunk or ROOM in chunk:
            return None
        try:
            records: list[Record] = _from_lines(chunk)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if len(records) != chunk.count(b"\n"):
            return None
        if self.sealed and not _are_sealed(chunk.split(b"\n")[:-1]):
            return None
        for seq, record in enumerate(records, self.last + 1):
            if type(record) not in _PLAIN or record.seq != seq:
                return None
        self.last += len(records)
        self._marked = self._marked or _COMMIT_END in chunk
        self._line += len(records)
        self.end += len(chunk)
        return records

    def decode(self, line: bytes) -> Record | None:
        """Decode *line* to a record; None for a text line.

        Raises:
            NotJson: If it is not JSON; the line does not count as read.
            JournalUnreadable: If it is not a record of this or an earlier version of Coterie, or not the next record.
        """
        if ROOM in line:
            raise NotJson(self.place, self._line + 1, "this line has a gap: it was never written whole")
        try:
            record = _from_json(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._refuse(line, error)
        if type(record) is TextLine:
            self.texts.add(record.hash, self._checked(record), self.end)
            found = None
        else:
            if self.sealed and not _is_sealed(line):
                self._fail(_DAMAGED)
            if record.seq != self.last + 1:
                self._fail(f"expected record {self.last + 1}, found record {record.seq}")
            if type(record) is RunStarted and record.schema > SCHEMA:
                self._fail(_newer(record.schema))
            self.last = record.seq
            found = _map_fields(record, self._whole) if _QUOTED_REFERENCE in line else record
        self._marked = self._marked or line.endswith(_COMMIT_END)
        self._line += 1
        self.end += len(line)
        return found

    def _checked(self, line: TextLine) -> str:
        text = line.whole
        if text_hash(text) != line.hash:
            self._fail("the text on this line is damaged: it is not the one that its hash names")
        return text

    def _whole(self, text: str) -> str:
        if not text.startswith(REFERENCE):
            return text
        hash = text[len(REFERENCE) :]
        if (found := self.texts.get(hash)) is None:
            found = self._read_again(hash, self.texts.line(hash))
        return found

    def _read_again(self, hash: str, line: bytes) -> str:
        if not line:
            self._fail(f"it refers to the text {REFERENCE + hash!r}, which no earlier line contains")
        try:
            again = _from_json(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            again = None
        if type(again) is not TextLine or again.hash != hash:
            self._fail(f"it refers to the text {REFERENCE + hash!r}, whose line has changed since; read the run again")
        text = self._checked(again)
        self.texts.add(hash, text, self.end)
        return text

    def _refuse(self, line: bytes, error: Exception) -> NoReturn:
        """Raise an error that says why *line* is not a record; *error* comes from the typed decoder."""
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
            hint = f"; {_MEND}" if self.sealed else ""
            raise NotJson(self.place, self._line + 1, f"this line is not JSON ({why}){hint}") from why
        if self.sealed and not line.lstrip(MARK).startswith(_TEXT_LINE) and not _is_sealed(line):
            self._fail(_DAMAGED)
        self._fail(_explain(value, str(error)))

    def _fail(self, reason: str) -> NoReturn:
        raise JournalUnreadable(self.place, self._line + 1, reason)


_MEND = "restore the file from a backup, or cut it off before this line and resume: later work is repeated"
_DAMAGED = f"the record on this line is damaged: its checksum is missing or wrong; {_MEND}"


def _seal(lines: bytes) -> bytes:
    """Add a checksum to each record in *lines*, which end with newlines."""
    if lines.find(b"\n") == len(lines) - 1:  # a single record, the usual case
        body = lines[:-2]
        return body + _SEALED_END % crc32(body)
    sealed = [
        line if line.startswith(_TEXT_LINE) else (body := line[:-1]) + _SEAL % crc32(body)
        for line in lines[:-1].split(b"\n")
    ]
    return b"\n".join([*sealed, b""])


def _is_sealed(line: bytes) -> bool:
    """Whether the record on *line* has its original checksum."""
    return _are_sealed([line.strip(_COMMIT_END)])


def _are_sealed(lines: Iterable[bytes]) -> bool:
    """Whether the records on all *lines*, which have no newlines, have their original checksums."""
    for line in lines:
        body, _, seal = line.rpartition(_SEAL_KEY)
        if b"%d}" % crc32(body) != seal.rstrip(MARK):
            return False
    return True


def _is_whole(commit: bytes) -> bool:
    """Whether *commit*, the last one, was written completely: a torn one has a gap or lacks its mark."""
    return commit.rstrip(_UNWRITTEN).endswith(_COMMIT_END) and not _GAP.search(commit.rstrip(_UNWRITTEN))


def text_hash(text: str) -> str:
    """The SHA-256 of *text* in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _measure(text: str) -> tuple[bool, int]:
    """Whether UTF-8 cannot encode *text*, and its length in bytes if it can."""
    try:
        return False, len(text.encode())
    except UnicodeEncodeError:
        return True, len(text)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply *change* to every text in *value*, except keys of dicts; return the same object if nothing changes."""
    if type(value) in _ATOMS:
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: map_texts(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([map_texts(item, change) for item in value])
    if isinstance(value, Struct):
        return _map_fields(value, change)
    return value


def _map_fields(value: S, change: Callable[[str], str]) -> S:
    """Apply *change* to every text in the fields of *value*; unchanged fields keep their objects, also defaults."""
    old = {name: getattr(value, name) for name in value.__struct_fields__}
    new = {name: mapped for name, field in old.items() if (mapped := map_texts(field, change)) is not field}
    return msgspec.structs.replace(value, **new) if new else value


def _newer(schema: int) -> str:
    return f"it is written in record format {schema}, but this coterie reads formats up to {SCHEMA}; use a newer one"


def _explain(value: Any, error: str) -> str:
    """Why *value*, the JSON of a line, is not a record."""
    if not isinstance(value, dict):
        return "this line is JSON, but not a record"
    topic, schema = value.get("topic"), value.get("schema")
    if topic == "run.started" and isinstance(schema, int) and schema > SCHEMA:
        return _newer(schema)
    if topic not in _TOPICS:
        return f"its topic {topic!r} is unknown; a newer coterie may have written it"
    return f"this is not a {topic} record: {error}"


def split(record: Record) -> tuple[str, dict[str, bytes]]:
    """Encode *record* as a line with a checksum and references to long texts; return these texts by hash."""
    *texts, line = Encoder(sealed=True).encode([record])[:-1].split(b"\n")
    found = (msgspec.json.decode(text, type=TextLine) for text in texts)
    return line.decode(), {one.hash: one.whole.encode("utf-8", "surrogatepass") for one in found}


def join(place: str, seq: int, lines: Iterable[str], texts: Mapping[str, bytes]) -> Iterator[Record]:
    """Decode *lines*, beginning with the record number *seq*; the inverse of `split`.

    Raises:
        JournalUnreadable: If a line is damaged, or one is missing.
    """
    decoder = Decoder(place)
    decoder.last, decoder.sealed = seq - 1, True
    for hash, data in texts.items():
        decoder.texts.add(hash, data.decode("utf-8", "surrogatepass"), 0)
    for line in lines:
        if (record := decoder.decode(line.encode() + b"\n")) is not None:
            yield record
