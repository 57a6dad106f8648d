"""The status of runs that have ended, kept beside the index: a list of many runs reads no journal of them again."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie.base import files
from coterie.execution.runs import index
from coterie.history.journal.jsonl import JOURNAL
from coterie.history.journal.status import ENDS, RunStatus, read_status

_LARGEST = 64 << 20


class Numbers(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of a run: the turns of its agents, its iterations, US dollars, and the seconds that it was owned."""

    turns: int = 0
    iterations: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class _Ended(msgspec.Struct, frozen=True, array_like=True):
    """The status of the run in *folder* while its journal has this *size* and time of the last change.

    Attributes:
        is_read: Whether the beginning of its journal could be read; *numbers*: all of it.
    """

    folder: str
    size: int
    changed: int
    state: str
    reason: str
    at: float
    is_read: bool = False
    numbers: Numbers | None = None


def path() -> Path:
    """The file beside the index; losing it costs time only."""
    return index.path().with_name("ended.jsonl")


def forget_removed() -> None:
    """Rewrite the file without runs whose journals are gone, each run once."""
    with suppress(OSError, RuntimeError):
        known = EndedRuns()._known.values()
        left = [one for one in known if os.path.exists(Path(one.folder, JOURNAL))]
        files.replace_text(path(), "".join(f"{msgspec.json.encode(one).decode()}\n" for one in left))


class EndedRuns:
    """The statuses of runs on this machine. Used as a context, it keeps at its end those that it learned."""

    def __init__(self) -> None:
        self._known, self._new = dict[str, _Ended](), list[bytes]()
        with suppress(OSError, RuntimeError):
            for line in files.read_end(path(), _LARGEST, follow=True).splitlines():
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    one = _decode(line)
                    self._known[one.folder] = one

    def __enter__(self) -> "EndedRuns":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError, RuntimeError):
            if self._new:
                files.make_folder(path().parent)
                with files.open_private(path(), "ab", follow=True) as file:
                    file.write(b"".join(self._new))

    def status(self, folder: str) -> RunStatus:
        """The status of the root run in *folder*; one that has ended and did not change is not read."""
        journal, known = Path(folder, JOURNAL), self._known.get(folder)
        try:
            now = os.stat(journal)
        except OSError:
            return RunStatus("cut off")
        if known is not None and (known.size, known.changed) == (now.st_size, now.st_mtime_ns):
            return RunStatus(known.state, known.reason, known.at)
        found = read_status(journal, Path(folder, "lock"))
        self._known.pop(folder, None)
        if found.state in ENDS:
            self._keep(_Ended(folder, now.st_size, now.st_mtime_ns, found.state, found.reason, found.at))
        return found

    def is_read(self, folder: str) -> bool:
        """Whether the journal of the run in *folder*, after its `status`, is known to begin correctly."""
        return (known := self._known.get(folder)) is not None and known.is_read

    def numbers(self, folder: str) -> Numbers | None:
        """The numbers of the run in *folder*, after its `status`, if it has ended and they are known."""
        return known.numbers if (known := self._known.get(folder)) is not None else None

    def read(self, folder: str, numbers: Numbers | None = None) -> None:
        """Remember that the journal of the run in *folder* was read after its status, if it has ended."""
        if (known := self._known.get(folder)) is not None:
            self._keep(msgspec.structs.replace(known, is_read=True, numbers=numbers or known.numbers))

    def _keep(self, one: _Ended) -> None:
        with suppress(UnicodeEncodeError):  # the name of a folder need not be text
            self._new.append(msgspec.json.encode(one) + b"\n")
            self._known[one.folder] = one


_decode = msgspec.json.Decoder(_Ended).decode
