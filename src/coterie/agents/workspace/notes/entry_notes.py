"""Memory and tasks that are entries, wherever these are kept."""

from abc import ABC, abstractmethod

from coterie.agents.workspace.notes.base import EntryFiles, Notes, NoteSettings, ShownNotes
from coterie.agents.workspace.notes.memory import Memory
from coterie.agents.workspace.notes.tasks import Tasks


class EntryNotes(Notes, ABC):
    """The memory and tasks of runs, of which `files` gives the entries."""

    @abstractmethod
    def files(self, run: str, settings: NoteSettings | None, kind: str) -> EntryFiles:
        """The entries of the `memory`, or of the `task`s, of *run*."""

    async def shown(self, run: str, settings: NoteSettings | None) -> ShownNotes:
        """The memory and the tasks of *run* as a prompt shows them."""
        memory, tasks = (settings.memory_chars, settings.tasks_chars) if settings is not None else (0, 0)
        return ShownNotes(
            memory=Memory.of(self.files(run, settings, "memory")).render(memory),
            tasks=Tasks.of(self.files(run, settings, "task")).render(tasks),
        )

    async def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """As `blocking`, which takes no time here."""
        return self.blocking(run, settings)

    def blocking(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """The open tasks of *run*, and of the project, that are not soft; none for a run that uses its parent's."""
        if settings is not None and settings.of_parent:
            return ()
        return Tasks.of(self.files(run, settings, "task")).blocking()
