"""The common part of memory and tasks: entries of the project and of the run, changed by adding entries.

The owner of a run applies changes or, outside of any run, the command itself. The ids of new entries come from the id
of the message, so two senders never get the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Self, cast

from coterie.agents.workspace.notes import entries
from coterie.agents.workspace.notes.base import EntryFiles, NoteChange
from coterie.agents.workspace.notes.entries import Entry
from coterie.base.file_fingerprint import FileFingerprint


class InvalidChange(ValueError):
    """A change that cannot be made; the message gives the reason."""


class Collection(ABC):
    """Entries that are in force, those of the run and those of the project.

    Args:
        project: The entries of the project's file.
        run: Those of the run's own file; None outside of a run.
    """

    name: ClassVar[str]

    def __init__(self, project: Iterable[Entry] = (), run: Iterable[Entry] | None = None) -> None:
        self.of_project = entries.in_force(project)
        self.of_run = entries.in_force(run or ())
        self._is_in_run = run is not None
        self._rendered: dict[int, str] = {}

    @classmethod
    def of(cls, files: EntryFiles) -> Self:
        """The entries of *files*, which are read only if they may have changed since the last call."""
        if not files.are_files:
            return cls(*files.read())
        fingerprint, found = _READ.pop((cls, files), (FileFingerprint(), None))
        if found is None or not fingerprint.is_current():
            with fingerprint.recorded():
                found = cls(*files.read())
            fingerprint.confirm()
        _READ[cls, files] = fingerprint, found
        if len(_READ) > _MOST_READ:
            del _READ[next(iter(_READ))]
        return cast(Self, found)

    @abstractmethod
    def change(self, note: dict[str, Any], name: str, now: float) -> NoteChange:
        """The change that *note* asks for in the message *name* at *now*, in Unix seconds.

        Raises:
            InvalidChange: If it cannot be made.
        """

    def render(self, chars: int) -> str:
        """The text for a prompt, of at most *chars* characters; 0 is unlimited.

        Entries are left out in the order of `_by_precedence`; a last line says how many.
        """
        if chars not in self._rendered:
            self._rendered[chars] = self._render(chars)
        return self._rendered[chars]

    def _render(self, chars: int) -> str:
        rising = self._by_precedence()
        whole = self._text(rising)
        if not chars or len(whole) <= chars:
            return whole
        low, high = 0, len(rising) - 1  # how many fit: more entries are never a shorter text
        while low < high:
            middle = (low + high + 1) // 2
            fits = len(self._shortened(rising, middle, chars)) <= chars
            low, high = (middle, high) if fits else (low, middle - 1)
        return self._shortened(rising, low, chars)[:chars]

    def _shortened(self, rising: Sequence[Entry], kept: int, chars: int) -> str:
        gone = len(rising) - kept
        note = f"({self.name} truncated: {gone} entries left out, the oldest first; the budget is {chars} characters)"
        return "\n".join(filter(None, (self._text(rising[gone:]), note)))

    @abstractmethod
    def _by_precedence(self) -> list[Entry]:
        """All entries, those first that a budget leaves out first."""

    @abstractmethod
    def _text(self, shown: Sequence[Entry]) -> str:
        """The text of the *shown* entries."""

    @property
    def _entries(self) -> list[Entry]:
        return [*self.of_project.values(), *self.of_run.values()]

    def _tiers(self) -> Iterable[tuple[bool, dict[str, Entry]]]:
        return (False, self.of_run), (True, self.of_project)

    def _added(self, said: str, entry: Entry, *, project: bool = False) -> NoteChange:
        """The change that adds *entry*; outside of a run all entries are the project's."""
        if project or not self._is_in_run:
            return NoteChange(said=said, project=(entry,))
        return NoteChange(said=said, run=(entry,))

    def _find(self, target: str) -> tuple[Entry, bool]:
        """The entry with the id *target*, or a unique beginning of one, and whether it is the project's.

        Raises:
            InvalidChange: If there is none, or several begin so.
        """
        known = [(entry, project) for project, tier in self._tiers() for entry in tier.values()]
        fitting = [one for one in known if one[0]["id"] == target] or [
            one for one in known if target and one[0]["id"].startswith(target)
        ]
        if len(fitting) == 1:
            return fitting[0]
        ids = ", ".join(entry["id"] for entry, _ in fitting or known) or "none"
        raise InvalidChange(
            f"{target!r} matches {ids}" if fitting else f"unknown entry {target!r}; known entries: {ids}"
        )


_READ: dict[tuple[type[Collection], EntryFiles], tuple[FileFingerprint, Collection | None]] = {}
_MOST_READ = 16


def timestamp(now: float) -> str:
    """*now*, in Unix seconds, as entries write times; they sort as texts."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def indented(text: Any) -> str:
    """*text* with its further lines indented below the first."""
    return "\n  ".join(str(text).strip().splitlines())


def checked_text(text: str) -> str:
    """*text*, which must not be blank."""
    if not text.strip():
        raise InvalidChange("the text is empty")
    return text
