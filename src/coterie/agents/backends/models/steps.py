"""The conversation of a model's turn, kept step by step so that the turn's next attempt can continue it.

The file is `steps.jsonl` in the attempt's folder: private, closed to the tools of agents as all state of runs is, moved
to the folder of the attempt that continues it, and removed by the run when the turn has ended. Each line is a CRC-32
and one JSON object:

    begin     whose conversation it is: model, question, tools, and the version of the library that writes the messages
    request   the messages of one request and the model's whole answer; *paused*: the provider has not finished it
    call      a tool marked `once` is about to be called
    tool      a tool has returned, or failed
    end       the attempt ended with the last answer; the messages that close it, if it calls tools
    text      a text of more than `LIMIT` characters, which later lines name by its hash

**Order of durability.** A tool is called only after the answer that asks for it is on disk, and a request is sent only
after the results that it contains are. A call marked `once` is on disk before it begins. Nothing waits for the disk
otherwise: one `sync` covers all lines so far, and a turn without tools has none. The last line may be torn by a power
cut: nothing has followed from it, so it is cut off. Any other line that cannot be read makes the whole file void.

**Continuing.** The conversation goes on from the last complete answer. If the attempt had not ended, the tools that
this answer calls are called again, through `RecordedTools`, which returns the results that are here. If it had ended,
its answer did not count: the new request says why, behind the closing messages. A conversation about another question,
with another model, other tools or a newer library is not continued, nor is one that the run excludes
(`Request.continues`).

**Secrets.** Values of secret-looking variables are written as their names and put back on reading. Names and hashes are
marked with random text of the file, which no agent knows.
"""

import asyncio
import hashlib
import json
import os
import re
import secrets as random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import Request
from coterie.agents.backends.secrets import Secrets
from coterie.base import files
from coterie.base.ids import attempt_id, folder_name
from coterie.history.journal.lines import sync_data
from coterie.history.journal.records import NO_USAGE, Usage

STEPS = "steps.jsonl"
LIMIT = 1000
"""The longest text, in characters, that is written inside a line."""
MOST = 256 << 20
"""The largest file that is continued, in bytes."""


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="step"):
    """A line of the file."""


class HeadLine(_Line, frozen=True, kw_only=True, tag="begin"):
    """Whose conversation it is; *tools* and *question* are hashes, *mark* precedes names of secrets and hashes."""

    library: str
    model: str
    question: str
    tools: str
    mark: str = ""
    guidance: tuple[str, ...] = ()


class AnswerLine(_Line, frozen=True, kw_only=True, tag="request"):
    """A request, and the model's answer as the last of its *messages*."""

    messages: list[Any]
    usage: Usage = NO_USAGE
    paused: bool = False


class CallLine(_Line, frozen=True, kw_only=True, tag="call"):
    """A tool marked `once` is about to be called."""

    id: str


class ResultLine(_Line, frozen=True, kw_only=True, tag="tool"):
    """A call has returned; *outcome* is `result`, `retry` or `failed`, and *arguments* a hash."""

    id: str
    name: str
    arguments: str
    outcome: str
    value: Any


class EndLine(_Line, frozen=True, kw_only=True, tag="end"):
    """The attempt ended with the last answer, which the next one continues behind *messages*.

    *dropped*: it is continued before that answer instead, which cannot be used at all.
    """

    attempt: int
    messages: list[Any] = []
    dropped: bool = False


class _LongTextLine(_Line, frozen=True, kw_only=True, tag="text"):
    hash: str
    text: str


_decode = msgspec.json.Decoder(HeadLine | AnswerLine | CallLine | ResultLine | EndLine | _LongTextLine).decode


class CannotContinue(ValueError):
    """A kept conversation cannot be continued; the message says why."""


class Steps:
    """The kept conversation of a turn; without a *folder*, nothing is kept.

    Attributes:
        paused: The messages behind them, which end with an answer that the provider has paused.
        returned: The results of the calls in that answer, by the call's id; *called*: calls marked `once` that began.
        closing: The messages behind the last answer if an attempt has ended with it, else None.
        dropped: Whether they are behind the answer before it.
        guidance: What the first prompt contained of the operator's guidance.
        void: Why an earlier conversation is not continued; empty if there is none, or if it is.
    """

    def __init__(self) -> None:
        self._answers: list[list[Any]] = []
        self.paused: list[Any] = []
        self.returned: dict[str, ResultLine] = {}
        self.called: set[str] = set()
        self.closing: list[Any] | None = None
        self.dropped, self._ended_by = False, 0
        self.guidance: tuple[str, ...] = ()
        self.tools: list[str] = []
        self.void = ""
        self._file: BinaryIO | None = None
        self._texts: set[str] = set()
        self._mark = ""
        self._unsynced = False
        self._syncing = asyncio.Lock()

    @property
    def messages(self) -> list[Any]:
        """The messages up to the last answer, or the part of it that a provider has given before it paused."""
        return [message for answer in (*self._answers, self.paused) for message in answer]

    @property
    def is_empty(self) -> bool:
        """Whether no answer is kept."""
        return not self._answers and not self.paused and self.closing is None

    def is_refused(self, refused: int, attempt: int) -> bool:
        """Whether the model has not read yet that the attempt *refused* did not count; *attempt* is the present one."""
        return refused == (attempt - 1 if self.closing is None else self._ended_by)

    @classmethod
    def open(cls, request: Request, begin: HeadLine, secrets: Secrets) -> "Steps":
        """Continue the conversation of an earlier attempt of *request*'s turn if *begin* fits, or begin a new one.

        Raises:
            OSError: If its file cannot be written.
        """
        steps = cls()
        if request.folder is None:
            return steps
        files.make_folder(request.folder)
        path = request.folder / STEPS
        names = [folder_name(attempt_id(request.turn, n)) for n in range(request.attempt, 0, -1)]
        kept = [one for name in names if (one := request.folder.parent / name / STEPS).exists()]
        if request.continues and request.answered and not kept:
            steps.void = "its file is not here"
        if kept and request.continues:
            try:
                steps._read(kept[0], begin, secrets)
            except (CannotContinue, OSError) as error:
                tools, steps = steps.tools, cls()
                steps.void, steps.tools = str(error), tools
            else:
                if kept[0] != path:
                    os.rename(kept[0], path)
                kept = kept[1:]
        for old in kept:
            files.discard(old)
        steps._file = files.open_private(path, "ab")
        if not steps._mark:
            mark = f"@{random.token_hex(8)}:"
            steps._hide(mark, secrets)
            steps.append(msgspec.structs.replace(begin, mark=mark))
        steps._unsynced = not steps.is_empty
        return steps

    def append(self, line: _Line) -> str:
        """Write *line*, and return its hash; empty if nothing is kept."""
        if isinstance(line, AnswerLine):
            self.returned.clear()
        if self._file is None:
            return ""
        texts: list[bytes] = []
        plain = msgspec.to_builtins(line)
        if not isinstance(line, HeadLine):
            plain = {name: self._packed(value, texts) for name, value in plain.items()}
        data = msgspec.json.encode(plain)
        self._file.write(b"".join([*texts, _sealed(data)]))
        self._file.flush()
        self._unsynced = True
        return hashlib.sha256(data).hexdigest()

    async def sync(self) -> None:
        """Return once all lines so far are on disk."""
        async with self._syncing:
            if self._unsynced and self._file is not None:
                self._unsynced = False
                await asyncio.to_thread(sync_data, self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _read(self, path: Path, begin: HeadLine, secrets: Secrets) -> None:
        data = files.read(path, MOST)
        *lines, torn = data.split(b"\n")
        if lines and not torn and not _is_whole(lines[-1]):
            torn = lines.pop()
        texts: dict[str, str] = {}
        for n, line in enumerate(lines, 1):
            try:
                if not _is_whole(line):
                    raise CannotContinue("the checksum is wrong")
                read = _decode(line[9:])
                if n == 1:
                    self._hide(_checked(read, begin), secrets)
                    self.guidance = read.guidance
                elif isinstance(read, _LongTextLine):
                    texts[read.hash] = self._shown(read.text, {})
                    self._texts.add(read.hash)
                else:
                    self._take(msgspec.convert(self._unpacked(msgspec.to_builtins(read), texts), type(read)))
            except (msgspec.DecodeError, LookupError, ValueError) as error:
                if n == 1 and isinstance(error, CannotContinue):
                    raise
                raise CannotContinue(f"line {n} of its steps cannot be read: {error}") from error
        if not lines:
            raise CannotContinue("its steps are empty")
        if torn:
            with files.open_private(path, "r+b") as file:
                file.truncate(sum(len(line) + 1 for line in lines))

    def _take(self, line: Any) -> None:
        match line:
            case AnswerLine(paused=True):
                self.paused = line.messages
            case AnswerLine():
                self._answers.append(line.messages)
                self.paused, self.closing, self.dropped = [], None, False
                self.returned.clear()
                self.called.clear()
            case CallLine():
                self.called.add(line.id)
            case ResultLine():
                self.returned[line.id] = line
                self.tools.append(line.name)
            case EndLine():
                self.dropped, self._ended_by = line.dropped, line.attempt
                self.closing = self._answers.pop()[:-1] if line.dropped else line.messages

    # -- secrets and long texts ---------------------------------------------------------------------------------------

    def _hide(self, mark: str, secrets: Secrets) -> None:
        """Hide *secrets*, also in the notations of JSON within texts, behind *mark*."""
        self._mark, found = mark, dict[str, str]()
        for value, name in secrets.named.items():
            for k, ascii in enumerate((None, True, False)):
                written = value if ascii is None else json.dumps(value, ensure_ascii=ascii)[1:-1]
                found.setdefault(written, f"{mark}{k}:{name};")
        self._names, self._values = found, {shown: written for written, shown in found.items()}
        longest_first = sorted(found, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def _packed(self, value: Any, texts: list[bytes]) -> Any:
        match value:
            case str():
                text = self._secret.sub(lambda found: self._names[found[0]], value)
                if len(text) <= LIMIT:
                    return text
                key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                if key not in self._texts:
                    self._texts.add(key)
                    texts.append(_sealed(msgspec.json.encode(_LongTextLine(hash=key, text=text))))
                return f"{self._mark}{key}"
            case dict():
                return {self._packed(name, texts): self._packed(inner, texts) for name, inner in value.items()}
            case list() | tuple():
                return [self._packed(inner, texts) for inner in value]
        return value

    def _unpacked(self, value: Any, texts: Mapping[str, str]) -> Any:
        match value:
            case str():
                return self._shown(value, texts)
            case dict():
                return {self._shown(name, texts): self._unpacked(inner, texts) for name, inner in value.items()}
            case list():
                return [self._unpacked(inner, texts) for inner in value]
        return value

    def _shown(self, text: str, texts: Mapping[str, str]) -> str:
        """*text* as it was before it was packed.

        Raises:
            LookupError: If it names a secret that is not set, or a text that is not here.
        """
        if self._mark not in text:
            return text
        if (key := text.removeprefix(self._mark)) in texts:
            return texts[key]

        def put_back(found: re.Match[str]) -> str:
            if (value := self._values.get(found[0])) is None:
                raise LookupError("it names a secret or a text that is not there")
            return value

        return re.sub(rf"{re.escape(self._mark)}(?:[0-2]:[^;]*;|[0-9a-f]{{64}})", put_back, text)


def digest(*values: Any) -> str:
    """SHA-256 of *values* as JSON, in hex; what JSON lacks counts as its description."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=repr).encode()).hexdigest()


def _checked(read: Any, begin: HeadLine) -> str:
    """The mark of the first line *read*, which must fit *begin*."""
    if not isinstance(read, HeadLine):
        raise CannotContinue("its steps have no beginning")
    for name, what in (("model", "another model"), ("question", "another question"), ("tools", "other tools")):
        if getattr(read, name) != getattr(begin, name):
            raise CannotContinue(f"it was about {what}" if name == "question" else f"it had {what}")
    if _version(read.library) > _version(begin.library):
        raise CannotContinue(f"it was kept by version {read.library} of the model library, and this is {begin.library}")
    return read.mark


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def _sealed(data: bytes) -> bytes:
    return b"%08x %b\n" % (crc32(data), data)


def _is_whole(line: bytes) -> bool:
    return line[:9] == b"%08x " % crc32(line[9:])


def are_in(folder: Path) -> bool:
    """Whether a conversation is kept in *folder*."""
    return (folder / STEPS).exists()


def remove(folders: Iterable[Path]) -> None:
    """Remove the kept conversation in *folders*, those of the attempts of a turn that has ended."""
    for folder in folders:
        files.discard(folder / STEPS)


def unknown(name: str) -> str:
    """What a model reads of a call of the tool *name* that began once and has no end."""
    return (
        f"it is not known whether this call of {name} took effect: the process ended while it was under way. It was "
        "not called again, since it must act at most once; find out before you call it"
    )
