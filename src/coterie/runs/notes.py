"""What a loop remembers and what it has to do: memory and tasks, each of the project and of the run.

Both are read from entries and shown within a budget: what is newest stays. A change is said as entries to be added, by
whoever owns the run or, outside of any, by the command itself; ids come from that of the message, so two who add at
once never get the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from coterie.runs import entries
from coterie.runs.entries import Entry
from coterie.settings.durations import seconds

PRIORITIES = {"high": 0, "normal": 1, "low": 2}
_SECTIONS = {"preference": "Preferences", "learning": "Learnings", "meta": "Meta"}


class NoteSettings(Struct, frozen=True, kw_only=True):
    """Where the memory and the tasks of a run lie beside its own, and how much of them a prompt shows.

    Attributes:
        memory: The project's file of memory, and *tasks* that of tasks.
        memory_chars: Characters of memory in a prompt, and *tasks_chars* of tasks; 0 is all.
        of_parent: Whether the run uses those of its parent run in place of its own.
    """

    memory: Path
    tasks: Path
    memory_chars: int = 0
    tasks_chars: int = 0
    of_parent: bool = False


class ShownNotes(Struct, frozen=True, kw_only=True):
    """Memory and tasks as a prompt shows them.

    Attributes:
        memory: What is remembered, within its budget; empty: nothing.
        tasks: The tasks, likewise.
        tool: The command through which the attempt emits.
    """

    memory: str = ""
    tasks: str = ""
    tool: str = "autoloops"


class NotPossible(ValueError):
    """A change that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be added for a change, and what is said of it.

    Attributes:
        run: Entries for the run's own file, *project* those for the project's.
    """

    said: str
    run: tuple[Entry, ...] = ()
    project: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Where the entries of a kind lie: those of the project, and those of a run, if there is one."""

    project: Path
    run: Path | None = None

    def add(self, change: Change) -> None:
        """Write *change* down; what stands there already is not written again.

        Raises:
            OSError: If it cannot be written.
        """
        entries.add(self.project, change.project)
        if self.run is not None:
            entries.add(self.run, change.run)


class Notes(Protocol):
    """The memory and tasks of runs. By default there are none."""

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> Files | None:
        """The files of the `memory`, or of the `task`s, of *run*; None: there are none."""
        return None

    def shown(self, run: str, settings: NoteSettings | None) -> ShownNotes:
        """The memory and the tasks of *run* as a prompt shows them."""
        return ShownNotes()

    def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """The tasks that keep *run* from completing."""
        return ()


class NoNotes(Notes):
    """No memory and no tasks."""


class _Notes:
    """What stands in the files of a kind; *of_run* by id, and *of_project*."""

    def __init__(self, project: Iterable[Entry] = (), run: Iterable[Entry] | None = None) -> None:
        self.of_project = entries.standing(project)
        self.of_run = entries.standing(run or ())
        self._inside = run is not None

    def _to(self, said: str, entry: Entry, *, project: bool) -> Change:
        """*entry* as a change; outside of a run everything is the project's."""
        if project or not self._inside:
            return Change(said=said, project=(entry,))
        return Change(said=said, run=(entry,))

    def _found(self, target: str) -> tuple[Entry, bool]:
        """The entry that *target* names, an id or a beginning only one has, and whether it is the project's.

        Raises:
            NotPossible: If there is none, or are several.
        """
        known = [(entry, project) for project in (False, True) for entry in self._tier(project).values()]
        fitting = [one for one in known if one[0]["id"] == target] or [
            one for one in known if target and one[0]["id"].startswith(target)
        ]
        if len(fitting) == 1:
            return fitting[0]
        ids = ", ".join(entry["id"] for entry, _ in fitting or known) or "none"
        raise NotPossible(f"{target!r} fits {ids}" if fitting else f"there is no {target!r}; there are: {ids}")

    def _tier(self, project: bool) -> dict[str, Entry]:
        return self.of_project if project else self.of_run


class Memory(_Notes):
    """What is remembered.

    Args:
        project: The entries of the project's file.
        run: Those of the run's own; None: there is no run.
    """

    @classmethod
    def of(cls, files: Files) -> "Memory":
        """What the files hold."""
        return cls(entries.read(files.project), None if files.run is None else entries.read(files.run))

    def render(self, chars: int) -> str:
        """What a prompt shows: the project's, then the run's, at most *chars* characters with the newest kept.

        0 is all. A last line says how much was left out.
        """
        every = [*self.of_project.values(), *self.of_run.values()]
        by_age = sorted(every, key=lambda entry: str(entry.get("created", "")))
        return _within(chars, by_age, self._text, "memory")

    def find(self, text: str = "") -> list[Entry]:
        """The entries that hold *text*, whatever its case."""
        return [one for one in self._every() if text.casefold() in f"{one['id']} {_memory_line(one)}".casefold()]

    def listing(self, text: str = "") -> str:
        """Those entries, a line each, as people read them."""
        return "\n".join(f"{one['id']}  {one.get('type', '')}  {_memory_line(one)}" for one in self.find(text))

    def change(self, note: dict[str, Any], name: str, now: float) -> Change:
        """What *note* wants changed, at *now*, as the message *name* says it.

        Raises:
            NotPossible: If it cannot be.
        """
        match note:
            case {"do": "add", "type": "learning", "text": str(text)}:
                entry = {"id": f"mem-{name}", "type": "learning", "text": _some(text)}
                entry |= {"source": str(note.get("source", "manual")), "created": stamp(now)}
                return self._to(f"remembered {entry['id']}", entry, project=bool(note.get("project")))
            case {"do": "add", "type": "preference", "text": str(text)}:
                entry = {"id": f"mem-{name}", "type": "preference"}
                entry |= {"category": str(note.get("category", "General")), "text": _some(text), "created": stamp(now)}
                return self._to(f"remembered {entry['id']}", entry, project=True)
            case {"do": "add", "type": "meta", "key": str(key), "value": str(value)}:
                entry = {"id": f"meta-{name}", "type": "meta", "key": _some(key), "value": value}
                entry["created"] = stamp(now)
                return self._to(f"remembered {entry['id']}", entry, project=bool(note.get("project")))
            case {"do": "remove", "target": str(target)}:
                found, project = self._found(target)
                gone = _tombstone(found, name, str(note.get("reason", "removed")), now)
                return self._to(f"forgot {found['id']}", gone, project=project)
            case {"do": "promote", "target": str(target)}:
                found, project = self._found(target)
                if project:
                    raise NotPossible(f"{found['id']} is the project's already")
                gone = _tombstone(found, name, "promoted", now)
                return Change(said=f"{found['id']} is the project's now", run=(gone,), project=(found,))
            case {"do": "compact"}:
                return self._without(self._doubles(), "said again later", name, now)
            case {"do": "prune", "max_age": str(age)}:
                return self._without(self._older(age, now), f"older than {age}", name, now)
        raise NotPossible(f"nobody knows how to change the memory so: {note}")

    def _every(self) -> list[Entry]:
        return [*self.of_project.values(), *self.of_run.values()]

    def _text(self, kept: Sequence[Entry]) -> str:
        shown = {entry["id"] for entry in kept}
        parts = []
        for title, tier in (("Project memory", self.of_project), ("Run memory", self.of_run)):
            lines = []
            for kind, heading in _SECTIONS.items():
                found = [one for one in tier.values() if one["id"] in shown and one.get("type") == kind]
                if found:
                    lines += [f"{heading}:", *(f"- {_memory_line(one)}" for one in found)]
            if lines:
                parts += [f"{title}:", *lines]
        return "\n".join(parts)

    def _doubles(self) -> list[tuple[Entry, bool]]:
        """Learnings of a tier that are said again later in it, and values of a key that has a later one."""
        doubles = []
        for project in (False, True):
            last: dict[tuple[str, str], str] = {}
            for entry in self._tier(project).values():
                last[_subject(entry)] = entry["id"]
            doubles += [(one, project) for one in self._tier(project).values() if last[_subject(one)] != one["id"]]
        return doubles

    def _older(self, age: str, now: float) -> list[tuple[Entry, bool]]:
        most = seconds(age, most=now)
        if most is None:
            raise NotPossible(f"{age!r} is no duration: write 30d, 12h or 1d12h")
        before = stamp(now - most)
        tiers = [(one, project) for project in (False, True) for one in self._tier(project).values()]
        return [(one, project) for one, project in tiers if str(one.get("created", before)) < before]

    def _without(self, gone: Sequence[tuple[Entry, bool]], reason: str, name: str, now: float) -> Change:
        stones = [(_tombstone(one, f"{name}-{k}", reason, now), project) for k, (one, project) in enumerate(gone)]
        return Change(
            said=f"forgot {len(gone)}",
            run=tuple(one for one, project in stones if not project),
            project=tuple(one for one, project in stones if project),
        )


class Tasks(_Notes):
    """What is to be done.

    Args:
        project: The entries of the project's file: what was added outside of any run.
        run: Those of the run's own; None: there is no run.
    """

    @classmethod
    def of(cls, files: Files) -> "Tasks":
        """What the files hold."""
        return cls(entries.read(files.project), None if files.run is None else entries.read(files.run))

    @property
    def open(self) -> list[Entry]:
        """The tasks that are open: the pressing ones first, then the oldest."""
        found = [one for one in self._every() if one.get("status") != "done"]
        return sorted(found, key=lambda one: (PRIORITIES.get(str(one.get("priority")), 1), str(one.get("created", ""))))

    @property
    def done(self) -> list[Entry]:
        """The tasks that are done, in the order in which they were."""
        return [one for one in self._every() if one.get("status") == "done"]

    def blocking(self) -> tuple[str, ...]:
        """The tasks that keep a loop from completing, in words: the open ones that are not soft."""
        return tuple(f"{one['id']} ({one.get('text', '')})" for one in self.open if not _is_soft(one))

    def render(self, chars: int) -> str:
        """What a prompt shows: open tasks, then done ones, at most *chars* characters.

        The open ones have precedence, then what was done last. 0 is all.
        """
        pressing = [*self.done, *reversed(self.open)]
        return _within(chars, pressing, self._text, "tasks")

    def listing(self) -> str:
        """All tasks, a line each, as people read them."""
        return self._text(self._every()) or "No tasks."

    def change(self, note: dict[str, Any], name: str, now: float) -> Change:
        """What *note* wants changed, at *now*, as the message *name* says it.

        Raises:
            NotPossible: If it cannot be.
        """
        match note:
            case {"do": "add", "text": str(text)}:
                entry: Entry = {"id": f"task-{name}", "type": "task", "text": _some(text), "status": "open"}
                entry |= {"source": str(note.get("source", "manual")), "created": stamp(now)}
                entry |= _priority(note) | ({"soft": "true"} if note.get("soft") else {})
                return self._to(f"added {entry['id']}", entry, project=False)
            case {"do": "complete", "target": str(target)}:
                found, project = self._found(target)
                done = found | {"status": "done", "completed": stamp(now)}
                return self._to(f"completed {found['id']}", done, project=project)
            case {"do": "update", "target": str(target)}:
                found, project = self._found(target)
                text = _some(str(note.get("text", found.get("text", ""))))
                return self._to(
                    f"updated {found['id']}",
                    found | {"text": text, "updated": stamp(now)} | _priority(note),
                    project=project,
                )
            case {"do": "remove", "target": str(target)}:
                found, project = self._found(target)
                gone = {"id": f"ts-{name}", "type": "task-tombstone", "target_id": found["id"], "created": stamp(now)}
                return self._to(f"removed {found['id']}", gone, project=project)
        raise NotPossible(f"nobody knows how to change the tasks so: {note}")

    def _every(self) -> list[Entry]:
        return [*self.of_project.values(), *self.of_run.values()]

    def _text(self, kept: Sequence[Entry]) -> str:
        shown = {entry["id"] for entry in kept}
        parts = []
        for title, box, found in (("Open:", " ", self.open), ("Done:", "x", self.done)):
            lines = [f"- [{box}] {_task_line(one)}" for one in found if one["id"] in shown]
            parts += [title, *lines] if lines else []
        return "\n".join(parts)


KINDS: dict[str, type[Memory] | type[Tasks]] = {"memory": Memory, "task": Tasks}
"""What the messages about each are called."""


def stamp(now: float) -> str:
    """*now*, Unix seconds, as entries write times; as text they sort like times."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _within(chars: int, rising: Sequence[Entry], text: Any, what: str) -> str:
    """*text* of as many of the last of *rising* as fit into *chars* characters, and a line on those left out."""
    whole: str = text(rising)
    if not chars or len(whole) <= chars:
        return whole
    low, high = 0, len(rising) - 1  # how many fit: more entries are never a shorter text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_cut(rising, middle, text, what, chars)) <= chars else (low, middle - 1)
    return _cut(rising, low, text, what, chars)[:chars]


def _cut(rising: Sequence[Entry], kept: int, text: Any, what: str, chars: int) -> str:
    gone = len(rising) - kept
    note = f"({what} truncated: {gone} entries left out, the oldest first; the budget is {chars} characters)"
    return "\n".join(filter(None, (text(rising[len(rising) - kept :]), note)))


def _memory_line(entry: Entry) -> str:
    match entry.get("type"):
        case "preference":
            return f"[{entry.get('category', 'General')}] {_indented(entry.get('text', ''))}"
        case "meta":
            return f"{entry.get('key', '')}: {_indented(entry.get('value', ''))}"
        case _:
            source = entry.get("source", "")
            return _indented(entry.get("text", "")) + (f" ({source})" if source and source != "manual" else "")


def _task_line(entry: Entry) -> str:
    marks = [mark for mark in (entry.get("priority"), "soft" if _is_soft(entry) else "") if mark and mark != "normal"]
    return f"{entry['id']}: {_indented(entry.get('text', ''))}" + (f" ({', '.join(map(str, marks))})" if marks else "")


def _indented(text: Any) -> str:
    """*text* such that its further lines belong to the first."""
    return "\n  ".join(str(text).strip().splitlines())


def _subject(entry: Entry) -> tuple[str, str]:
    """What an entry is about: another one about the same says it anew."""
    kind = str(entry.get("type"))
    return kind, str(entry.get("key", "")) if kind == "meta" else str(entry.get("text", "")).strip()


def _tombstone(entry: Entry, name: str, reason: str, now: float) -> Entry:
    return {
        "id": f"ts-{name}",
        "type": "tombstone",
        "target_id": entry["id"],
        "reason": reason,
        "created": stamp(now),
    }


def _priority(note: dict[str, Any]) -> Entry:
    given = str(note.get("priority", ""))
    if given and given not in PRIORITIES:
        raise NotPossible(f"{given!r} is no priority: write high, normal or low")
    return {"priority": given} if given else {}


def _is_soft(entry: Entry) -> bool:
    return str(entry.get("soft", "")).lower() in ("true", "1")


def _some(text: str) -> str:
    if not text.strip():
        raise NotPossible("there is no text")
    return text
