"""Memory and tasks of a run on a cluster: what its records say, after what was there when it was submitted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from coterie.agents.workspace.notes import EntryFiles, EntryNotes, NoteChange, NoteSettings
from coterie.agents.workspace.notes.entries import Entry, add, read
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import MemoryChanged, TaskChanged
from coterie.history.journal.runs import Journal, RunReader, RunRecord
from coterie.team.planning.plan import Plan

Submitted = Mapping[str, list[Entry]]
"""The project's entries when the run was submitted: `memory` and `task`."""


class HeldEntries(EntryFiles, frozen=True):
    """Entries that are in no file here."""

    are_files: ClassVar[bool] = False

    of_project: tuple[Entry, ...] = ()
    of_run: tuple[Entry, ...] = ()

    def read(self) -> tuple[list[Entry], list[Entry] | None]:
        """The entries."""
        return list(self.of_project), list(self.of_run)

    def add(self, change: NoteChange) -> None:
        """Nothing to do: the record of *change* has them."""


class RecordedNotes(EntryNotes):
    """The memory and tasks of the runs that *driven* gives, by their records.

    Args:
        submitted: What the project's files held.
    """

    def __init__(self, driven: Callable[[], Mapping[str, DrivenRun]], submitted: Submitted) -> None:
        self._driven, self._submitted = driven, submitted

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> HeldEntries:
        """The entries of the `memory`, or of the `task`s, of *run*."""
        if settings is not None and settings.of_parent:
            run = run.rpartition("/")[0]
        changes = ((name, one) for name, live in self._driven().items() for one in live.core.notes.values())
        return recorded(changes, run, kind, self._submitted.get(kind, ()))


def recorded(records: Iterable[RunRecord], run: str, kind: str, submitted: Iterable[Entry]) -> HeldEntries:
    """The entries of the `memory`, or of the `task`s, of *run* after *records* of all runs of its root.

    Args:
        submitted: What the project's file held before.
    """
    wanted = MemoryChanged if kind == "memory" else TaskChanged
    changes = [(name, one) for name, one in records if isinstance(one, wanted)]
    project = [entry for _, one in changes for entry in one.project]
    own = [entry for name, one in changes if name == run for entry in one.entries]
    return HeldEntries(Path(), None, (*submitted, *project), tuple(own))


def bring_back_notes(run: str, records: Sequence[RunRecord]) -> None:
    """Write what *run* added to the memory and the tasks of its project into their files, if the project is here.

    A call can be repeated.

    Args:
        records: Of its journal.

    Raises:
        OSError: If they cannot be written.
    """
    kind = kind_of(plan_of(records, run))
    if kind.project.notes is None or kind.project.place is None or not Path(kind.project.place.work_dir).is_dir():
        return
    for path, wanted in (kind.project.notes.memory, MemoryChanged), (kind.project.notes.tasks, TaskChanged):
        add(path, [entry for _, one in records if isinstance(one, wanted) for entry in one.project])


def plan_of(records: Sequence[RunRecord], run: str) -> Plan:
    """The plan that *run* obeys, whose journal is among *records*."""
    store = MemoryStore()
    store.fill(run, own := [record for name, record in records if name == run])
    return Journal(RunReader(store), run, own).plan()


def submitted(plan: Plan) -> dict[str, list[Entry]]:
    """What the memory and the tasks of the project of *plan* hold, on the machine that submits it."""
    settings = kind_of(plan).project.notes
    if settings is None:
        return {}
    return {"memory": read(settings.memory), "task": read(settings.tasks)}
