"""Notes of loops: memory and tasks, each of a project and of a run."""

from coterie.workspace.notes.base import EntryFiles, NoteChange, Notes, NoteSettings, ShownNotes
from coterie.workspace.notes.collection import InvalidChange, timestamp
from coterie.workspace.notes.entry_notes import EntryNotes
from coterie.workspace.notes.memory import Memory
from coterie.workspace.notes.tasks import Tasks

__all__ = [
    "COLLECTIONS",
    "EntryFiles",
    "EntryNotes",
    "InvalidChange",
    "Memory",
    "NoteChange",
    "NoteSettings",
    "Notes",
    "ShownNotes",
    "Tasks",
    "timestamp",
]

COLLECTIONS: dict[str, type[Memory] | type[Tasks]] = {"memory": Memory, "task": Tasks}
"""The collections by the kind of the messages that change them."""
