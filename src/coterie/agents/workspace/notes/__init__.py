"""Notes of loops: memory and tasks, each of a project and of a run."""

from coterie.agents.workspace.notes.base import EntryFiles, NoteChange, Notes, NoteSettings, ShownNotes
from coterie.agents.workspace.notes.collection import InvalidChange, timestamp
from coterie.agents.workspace.notes.entry_notes import EntryNotes
from coterie.agents.workspace.notes.memory import Memory
from coterie.agents.workspace.notes.tasks import Tasks

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
