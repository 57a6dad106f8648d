"""Records of changes to memory and tasks."""

from typing import Any

from coterie.journal.records.base import Record


class MemoryChanged(Record, frozen=True, kw_only=True, tag="memory.changed", gc=False):
    """What is remembered was changed by these entries: of the run's own memory, and of the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()


class TaskChanged(Record, frozen=True, kw_only=True, tag="task.changed", gc=False):
    """The tasks were changed by these entries: of the run's own tasks, and of the project's."""

    message: str
    turn: str = ""
    entries: tuple[dict[str, Any], ...] = ()
    project: tuple[dict[str, Any], ...] = ()
