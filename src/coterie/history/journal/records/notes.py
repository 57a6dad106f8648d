"""Records of changes to memory and tasks."""

from typing import Any

from coterie.history.journal.records.base import Record


class MemoryChanged(Record, frozen=True, kw_only=True, tag="memory.changed", gc=False):
    """These entries changed the run's own memory, and the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()


class TaskChanged(Record, frozen=True, kw_only=True, tag="task.changed", gc=False):
    """These entries changed the run's own tasks, and the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()
