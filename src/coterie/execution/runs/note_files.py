"""The files with memory and tasks of runs: those of the project, and those in the folder of each run."""

from functools import lru_cache
from pathlib import Path

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
        if settings is None:
            return _files(self._runs.root / name, self._runs.folder(run), name)
        if settings.of_parent:
            run = run.rpartition("/")[0]
        project = settings.memory if kind == "memory" else settings.tasks
        return _files(project, self._runs.folder(run), name)


@lru_cache
def _files(project: Path, run: Path, name: str) -> EntryFiles:
    return EntryFiles(project=project, run=run / name)
