"""The files with memory and tasks of runs: those of the project, and those in the folder of each run."""

from coterie.agents.workspace.notes import EntryFiles, EntryNotes, NoteSettings
from coterie.execution.runs.repository import Runs


class NoteFiles(EntryNotes):
    """The memory and tasks of the runs under one state directory."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> EntryFiles:
        """The files of the `memory`, or of the `task`s, of *run*: those of the project, and its own.

        A branch of a wave uses those of the loop that opened it, so its notes are not lost with it.
        """
        name = {"memory": "memory.jsonl", "task": "tasks.jsonl"}[kind]
        project = self._runs.root / name
        if settings is not None:
            project = settings.memory if kind == "memory" else settings.tasks
            if settings.of_parent:
                run = run.rpartition("/")[0]
        return EntryFiles(project=project, run=self._runs.folder(run) / name)
