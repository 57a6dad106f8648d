"""The notes that a run needs: where they are stored, and the texts that prompts show."""

from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from coterie.agents.workspace.notes import entries
from coterie.agents.workspace.notes.entries import Entry


class NoteSettings(Struct, frozen=True, kw_only=True):
    """Where the project's memory and tasks are stored, and how much of them a prompt shows.

    Attributes:
        memory: The project's file of memory.
        tasks: The project's file of tasks.
        memory_chars: Characters of memory in a prompt; 0 is unlimited.
        tasks_chars: Characters of tasks in a prompt; 0 is unlimited.
        of_parent: Whether the run uses the notes of its parent run instead.
    """

    memory: Path
    tasks: Path
    memory_chars: int = 0
    tasks_chars: int = 0
    of_parent: bool = False


class ShownNotes(Struct, frozen=True, kw_only=True):
    """Memory and tasks as a prompt shows them, within their budgets.

    Attributes:
        tool: The command through which the attempt emits.
    """

    memory: str = ""
    tasks: str = ""
    tool: str = "autoloops"


class NoteChange(Struct, frozen=True, kw_only=True):
    """The entries to be added for a change.

    Attributes:
        said: The answer to the sender.
        run: Entries for the run's own file.
        project: Entries for the project's file.
    """

    said: str = ""
    run: tuple[Entry, ...] = ()
    project: tuple[Entry, ...] = ()


class EntryFiles(Struct, frozen=True):
    """The files of memory or tasks: the project's and, in a run, the run's own.

    Attributes:
        are_files: Whether reading them again is of no use before a file has changed.
    """

    are_files: ClassVar[bool] = True

    project: Path
    run: Path | None = None

    def read(self) -> tuple[list[Entry], list[Entry] | None]:
        """The entries of the project, and the run's own; None outside of a run."""
        return entries.read(self.project), None if self.run is None else entries.read(self.run)

    def add(self, change: NoteChange) -> None:
        """Write the entries of *change*, without those that are there already.

        Raises:
            OSError: If they cannot be written.
        """
        entries.add(self.project, change.project)
        if self.run is not None:
            entries.add(self.run, change.run)


class Notes:
    """The memory and tasks of runs. By default there are none."""

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> EntryFiles | None:
        """The files of the `memory`, or of the `task`s, of *run*; None: there are none."""
        return None

    async def shown(self, run: str, settings: NoteSettings | None) -> ShownNotes:
        """The memory and the tasks of *run* as a prompt shows them."""
        return ShownNotes()

    async def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """The tasks that keep *run* from completing."""
        return ()
