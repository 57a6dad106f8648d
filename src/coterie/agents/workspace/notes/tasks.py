"""The tasks of loops: open ones keep a loop from completing unless they are soft."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from coterie.agents.workspace.notes.base import NoteChange
from coterie.agents.workspace.notes.collection import Collection, InvalidChange, checked_text, indented, timestamp
from coterie.agents.workspace.notes.entries import Entry

PRIORITIES = {"high": 0, "normal": 1, "low": 2}


class Tasks(Collection):
    """The tasks of a project, which were added outside of any run, and those of a run."""

    name: ClassVar[str] = "tasks"

    @cached_property
    def open(self) -> list[Entry]:
        """The open tasks, by priority and then by age."""
        found = [one for one in self._entries if one.get("status") != "done"]
        return sorted(found, key=lambda one: (PRIORITIES.get(str(one.get("priority")), 1), str(one.get("created", ""))))

    @cached_property
    def done(self) -> list[Entry]:
        """The completed tasks, in the order of their completion."""
        return [one for one in self._entries if one.get("status") == "done"]

    def blocking(self) -> tuple[str, ...]:
        """The open tasks that are not soft, as texts: they keep a loop from completing."""
        return self._blocking

    @cached_property
    def _blocking(self) -> tuple[str, ...]:
        return tuple(f"{one['id']} ({one.get('text', '')})" for one in self.open if not _is_soft(one))

    def listing(self) -> str:
        """All tasks, a line each, for people."""
        return self._text(self._entries) or "No tasks."

    def change(self, note: dict[str, Any], name: str, now: float) -> NoteChange:
        """As for every collection: add, complete, update or remove."""
        match note:
            case {"do": "add", "text": str(text)}:
                entry: Entry = {"id": f"task-{name}", "type": "task", "text": checked_text(text), "status": "open"}
                entry |= {"source": str(note.get("source", "manual")), "created": timestamp(now)}
                entry |= _priority(note) | ({"soft": "true"} if note.get("soft") else {})
                return self._added(f"added {entry['id']}", entry)
            case {"do": "complete", "target": str(target)}:
                found, project = self._find(target)
                done = found | {"status": "done", "completed": timestamp(now)}
                return self._added(f"completed {found['id']}", done, project=project)
            case {"do": "update", "target": str(target)}:
                found, project = self._find(target)
                text = checked_text(str(note.get("text", found.get("text", ""))))
                updated = found | {"text": text, "updated": timestamp(now)} | _priority(note)
                return self._added(f"updated {found['id']}", updated, project=project)
            case {"do": "remove", "target": str(target)}:
                found, project = self._find(target)
                gone = {"id": f"ts-{name}", "type": "task-tombstone", "target_id": found["id"]}
                return self._added(f"removed {found['id']}", gone | {"created": timestamp(now)}, project=project)
        raise InvalidChange(f"unknown change of the tasks: {note}")

    def _by_precedence(self) -> list[Entry]:
        """The done tasks, then the open ones, most urgent last."""
        return [*self.done, *reversed(self.open)]

    def _text(self, shown: Sequence[Entry]) -> str:
        ids = {entry["id"] for entry in shown}
        parts = []
        for title, box, found in (("Open:", " ", self.open), ("Done:", "x", self.done)):
            lines = [f"- [{box}] {_line(one)}" for one in found if one["id"] in ids]
            parts += [title, *lines] if lines else []
        return "\n".join(parts)


def _line(entry: Entry) -> str:
    marks = [mark for mark in (entry.get("priority"), "soft" if _is_soft(entry) else "") if mark and mark != "normal"]
    return f"{entry['id']}: {indented(entry.get('text', ''))}" + (f" ({', '.join(map(str, marks))})" if marks else "")


def _priority(note: dict[str, Any]) -> Entry:
    given = str(note.get("priority", ""))
    if given and given not in PRIORITIES:
        raise InvalidChange(f"{given!r} is not a priority: write high, normal or low")
    return {"priority": given} if given else {}


def _is_soft(entry: Entry) -> bool:
    return str(entry.get("soft", "")).lower() in ("true", "1")
