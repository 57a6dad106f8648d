"""Memory and tasks of runs on disk: the project's files, and those in the folder of each run."""

from coterie.runs.repository import Runs
from coterie.workspace.notes import EntryFiles, Memory, Notes, NoteSettings, ShownNotes, Tasks


class NoteFiles(Notes):
    """The memory and tasks of the runs under one state directory."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> EntryFiles:
        """The files of the `memory`, or of the `task`s, of *run*: the project's, and its own.

        The branch of a wave uses those of the loop that opened it: what it learns is not lost with it.
        """
        name = {"memory": "memory.jsonl", "task": "tasks.jsonl"}[kind]
        project = self._runs.root / name
        if settings is not None:
            project = settings.memory if kind == "memory" else settings.tasks
            if settings.of_parent:
                run = run.rpartition("/")[0]
        return EntryFiles(project=project, run=self._runs.folder(run) / name)

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
