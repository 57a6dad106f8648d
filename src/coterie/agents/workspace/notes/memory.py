"""The memory of loops: learnings, preferences and named values."""

from collections.abc import Sequence
from typing import Any, ClassVar

from coterie.agents.workspace.notes.base import NoteChange
from coterie.agents.workspace.notes.collection import Collection, InvalidChange, checked_text, indented, timestamp
from coterie.agents.workspace.notes.entries import Entry

_SECTIONS = {"preference": "Preferences", "learning": "Learnings", "meta": "Meta"}


class Memory(Collection):
    """The memory of a project and of a run."""

    name: ClassVar[str] = "memory"

    def find(self, text: str = "") -> list[Entry]:
        """The entries that contain *text*, ignoring case."""
        return [one for one in self._entries if text.casefold() in f"{one['id']} {_line(one)}".casefold()]

    def listing(self, text: str = "") -> str:
        """The entries that contain *text*, a line each, for people."""
        return "\n".join(f"{one['id']}  {one.get('type', '')}  {_line(one)}" for one in self.find(text))

    def change(self, note: dict[str, Any], name: str, now: float) -> NoteChange:
        """As for every collection: add, remove, promote, compact or prune."""
        match note:
            case {"do": "add", "type": "learning", "text": str(text)}:
                entry = {"id": f"mem-{name}", "type": "learning", "text": checked_text(text)}
                entry |= {"source": str(note.get("source", "manual")), "created": timestamp(now)}
                return self._added(f"remembered {entry['id']}", entry, project=bool(note.get("project")))
            case {"do": "add", "type": "preference", "text": str(text)}:
                entry = {"id": f"mem-{name}", "type": "preference", "category": str(note.get("category", "General"))}
                entry |= {"text": checked_text(text), "created": timestamp(now)}
                return self._added(f"remembered {entry['id']}", entry, project=True)
            case {"do": "add", "type": "meta", "key": str(key), "value": str(value)}:
                entry = {"id": f"meta-{name}", "type": "meta", "key": checked_text(key), "value": value}
                entry["created"] = timestamp(now)
                return self._added(f"remembered {entry['id']}", entry, project=bool(note.get("project")))
            case {"do": "remove", "target": str(target)}:
                found, project = self._find(target)
                gone = _tombstone(found, name, str(note.get("reason", "removed")), now)
                return self._added(f"forgot {found['id']}", gone, project=project)
            case {"do": "promote", "target": str(target)}:
                found, project = self._find(target)
                if project:
                    raise InvalidChange(f"{found['id']} already belongs to the project")
                gone = _tombstone(found, name, "promoted", now)
                return NoteChange(said=f"{found['id']} now belongs to the project", run=(gone,), project=(found,))
            case {"do": "compact"}:
                return self._without(self._repeated(), "repeated later", name, now)
            case {"do": "prune", "max_age": str(age)}:
                return self._without(self._older(age, now), f"older than {age}", name, now)
        raise InvalidChange(f"unknown change of the memory: {note}")

    def _by_precedence(self) -> list[Entry]:
        return sorted(self._entries, key=lambda entry: str(entry.get("created", "")))

    def _text(self, shown: Sequence[Entry]) -> str:
        ids = {entry["id"] for entry in shown}
        parts = []
        for title, tier in (("Project memory", self.of_project), ("Run memory", self.of_run)):
            lines = []
            for kind, heading in _SECTIONS.items():
                found = [one for one in tier.values() if one["id"] in ids and one.get("type") == kind]
                if found:
                    lines += [f"{heading}:", *(f"- {_line(one)}" for one in found)]
            if lines:
                parts += [f"{title}:", *lines]
        return "\n".join(parts)

    def _repeated(self) -> list[tuple[Entry, bool]]:
        """The entries whose subject has a later entry in the same tier."""
        repeated = []
        for project, tier in self._tiers():
            last = {_subject(entry): entry["id"] for entry in tier.values()}
            repeated += [(one, project) for one in tier.values() if last[_subject(one)] != one["id"]]
        return repeated

    def _older(self, age: str, now: float) -> list[tuple[Entry, bool]]:
        from coterie.team.formats.settings.durations import seconds  # its package reads all settings

        most = seconds(age, most=now)
        if most is None:
            raise InvalidChange(f"{age!r} is not a duration: write 30d, 12h or 1d12h")
        before = timestamp(now - most)
        tiers = [(one, project) for project, tier in self._tiers() for one in tier.values()]
        return [(one, project) for one, project in tiers if str(one.get("created", before)) < before]

    def _without(self, gone: Sequence[tuple[Entry, bool]], reason: str, name: str, now: float) -> NoteChange:
        stones = [(_tombstone(one, f"{name}-{k}", reason, now), project) for k, (one, project) in enumerate(gone)]
        return NoteChange(
            said=f"forgot {len(gone)}",
            run=tuple(one for one, project in stones if not project),
            project=tuple(one for one, project in stones if project),
        )


def _line(entry: Entry) -> str:
    match entry.get("type"):
        case "preference":
            return f"[{entry.get('category', 'General')}] {indented(entry.get('text', ''))}"
        case "meta":
            return f"{entry.get('key', '')}: {indented(entry.get('value', ''))}"
        case _:
            source = entry.get("source", "")
            return indented(entry.get("text", "")) + (f" ({source})" if source and source != "manual" else "")


def _subject(entry: Entry) -> tuple[str, str]:
    """The subject of *entry*; a later entry with the same subject replaces it."""
    kind = str(entry.get("type"))
    return kind, str(entry.get("key", "")) if kind == "meta" else str(entry.get("text", "")).strip()


def _tombstone(entry: Entry, name: str, reason: str, now: float) -> Entry:
    stone = {"id": f"ts-{name}", "type": "tombstone", "target_id": entry["id"]}
    return stone | {"reason": reason, "created": timestamp(now)}
