"""Memory and tasks: what stands, what is shown within a budget, and what a change adds."""

import json
from pathlib import Path

import pytest
from audited import audited
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.workspace.notes import (
    EntryFiles,
    InvalidChange,
    Memory,
    NoteChange,
    Tasks,
    collection,
    entries,
    timestamp,
)
from coterie.base import file_fingerprint

NOW = 1_800_000_000.0


def learning(name: str, text: str, day: int = 1) -> entries.Entry:
    return {"id": name, "type": "learning", "text": text, "source": "manual", "created": f"2026-01-{day:02}T00:00:00Z"}


def task(name: str, text: str = "do it", **fields: str) -> entries.Entry:
    created = "2026-01-01T00:00:00Z"
    return {"id": name, "type": "task", "text": text, "status": "open", "created": created, **fields}


def test_memory_is_shown_by_where_it_lies_and_what_it_is() -> None:
    """The project's, then the run's; preferences, learnings, named values."""
    memory = Memory(
        [
            {"id": "mem-1", "type": "preference", "category": "Style", "text": "Short\nlines"},
            {"id": "meta-1", "type": "meta", "key": "port", "value": "80"},
            learning("mem-2", "tabs"),
        ],
        [{**learning("mem-3", "spaces"), "source": "review"}],
    )

    assert memory.render(8000).splitlines() == [
        "Project memory:",
        "Preferences:",
        "- [Style] Short",
        "  lines",
        "Learnings:",
        "- tabs",
        "Meta:",
        "- port: 80",
        "Run memory:",
        "Learnings:",
        "- spaces (review)",
    ]


def test_the_newest_is_kept_when_the_budget_cuts() -> None:
    """Wherever it lies: what the run has just learned is not what goes first."""
    project = [learning(f"mem-{n}", f"old {n} " + "x" * 50, day=n) for n in range(1, 9)]
    memory = Memory(project, [learning("mem-new", "the newest", day=20)])

    shown = memory.render(300)
    assert "the newest" in shown
    assert "old 1 " not in shown
    assert "old 8 " in shown
    assert "entries left out, the oldest first; the budget is 300 characters" in shown
    assert "old 1 " in memory.render(0)
    turned = Memory([*reversed(project)], [learning("mem-old", "first, too", day=1)])
    assert [text in turned.render(300) for text in ("old 8 ", "old 1 ", "first, too")] == [True, False, False]


@given(st.lists(st.text(min_size=1, max_size=80), max_size=12), st.integers(1, 600))
def test_what_is_shown_fits_the_budget(texts: list[str], chars: int) -> None:
    """Whatever the budget and the entries."""
    memory = Memory([learning(f"mem-{n}", text, day=n + 1) for n, text in enumerate(texts)])
    tasks = Tasks([task(f"task-{n}", text) for n, text in enumerate(texts)])

    assert len(memory.render(chars)) <= chars
    assert len(tasks.render(chars)) <= chars


def test_an_entry_said_again_replaces_the_first_and_a_tombstone_takes_it_away() -> None:
    """Until it is added again; a line that is no entry is not read."""
    again = Memory([learning("mem-1", "old"), learning("mem-1", "new")])
    gone = [learning("mem-1", "a"), {"id": "ts-1", "type": "tombstone", "target_id": "mem-1"}]

    assert [one["text"] for one in again.find()] == ["new"]
    assert Memory(gone).find() == []
    assert [one["text"] for one in Memory([*gone, learning("mem-1", "b")]).find()] == ["b"]


def test_what_is_learned_in_a_run_is_the_runs_own() -> None:
    """But for `--project` and preferences, which hold for every run; outside of a run all is the project's."""
    note = {"do": "add", "type": "learning", "text": "tabs"}

    inside, outside = Memory([], []), Memory([])
    assert [len(inside.change(note, "a" * 16, NOW).run), len(outside.change(note, "a" * 16, NOW).project)] == [1, 1]
    assert len(inside.change(note | {"project": True}, "a" * 16, NOW).project) == 1
    assert len(inside.change({"do": "add", "type": "preference", "text": "short"}, "a" * 16, NOW).project) == 1


def applied(memory: Memory, change: NoteChange) -> Memory:
    return Memory(
        [*memory.of_project.values(), *change.project],
        [*memory.of_run.values(), *change.run],
    )


def test_promoting_moves_an_entry_to_the_project() -> None:
    """As it is; twice cannot be."""
    memory = Memory([], [learning("mem-12345678", "tabs")])

    after = applied(memory, memory.change({"do": "promote", "target": "mem-1"}, "b" * 16, NOW))
    assert (list(after.of_run), list(after.of_project)) == ([], ["mem-12345678"])
    with pytest.raises(InvalidChange, match="already"):
        after.change({"do": "promote", "target": "mem-1"}, "c" * 16, NOW)


def test_compacting_forgets_what_was_said_again_later() -> None:
    """The same learning, and the earlier values of a key; each where it lies."""
    values = [{"id": f"meta-{key}{n}", "type": "meta", "key": key, "value": str(n)} for key in "jk" for n in (1, 2)]
    learned = [learning("mem-0", "b"), learning("mem-1", "a"), learning("mem-2", "a")]
    memory = Memory([*learned, *values], [learning("mem-3", "a")])

    after = applied(memory, memory.change({"do": "compact"}, "b" * 16, NOW))
    assert [one["id"] for one in after.find()] == ["mem-0", "mem-2", "meta-j2", "meta-k2", "mem-3"]


def test_pruning_forgets_what_is_older_than_said() -> None:
    """Longer ages than timers may have, too; an entry without a date, written by hand, is kept."""
    ages = {"new": 1, "month": 31, "year": 370}
    dated = [{**learning(name, name), "created": timestamp(NOW - 86400 * days)} for name, days in ages.items()]
    dateless = {"id": "by hand", "type": "learning", "text": "of unknown age"}
    memory = Memory([dateless, *dated])

    def left(age: str) -> list[str]:
        change = memory.change({"do": "prune", "max_age": age}, "b" * 16, NOW)
        return [one["id"] for one in applied(memory, change).find()]

    assert left("30d") == ["by hand", "new"]
    assert left("365d") == ["by hand", "new", "month"]
    with pytest.raises(InvalidChange, match="not a duration"):
        left("soon")


def test_open_tasks_are_shown_by_how_much_they_press() -> None:
    """High first, then the oldest; what is done comes last and goes first."""
    tasks = Tasks(
        [
            task("task-1", "n", priority="normal"),
            task("task-2", "l", priority="low"),
            task("task-3", "h", priority="high"),
            task("task-4", "s", soft="true"),
            task("task-5", "d" * 80, status="done"),
        ]
    )

    assert tasks.render(0).splitlines() == [
        "Open:",
        "- [ ] task-3: h (high)",
        "- [ ] task-1: n",
        "- [ ] task-4: s (soft)",
        "- [ ] task-2: l (low)",
        "Done:",
        "- [x] task-5: " + "d" * 80,
    ]
    assert "task-3" in tasks.render(170)
    assert "task-5" not in tasks.render(170)
    assert [one.split()[0] for one in tasks.blocking()] == ["task-3", "task-1", "task-2"]


def test_a_task_says_who_added_it_and_when() -> None:
    """The oldest of equal priority is shown first."""
    added = Tasks().change({"do": "add", "text": "x", "source": "agent"}, "b" * 16, NOW)

    [entry] = [*added.run, *added.project]
    assert (entry["source"], entry["created"]) == ("agent", timestamp(NOW))


def test_a_task_is_changed_where_it_lies() -> None:
    """One that was added outside of any run stays there, and any run may complete it."""
    tasks = Tasks([task("task-abc")], [task("task-def")])

    done = tasks.change({"do": "complete", "target": "task-a"}, "b" * 16, NOW)
    assert (len(done.run), [one["status"] for one in done.project]) == (0, ["done"])
    update = tasks.change({"do": "update", "target": "task-def", "text": "else", "priority": "low"}, "b" * 16, NOW)
    assert [(one["text"], one["priority"]) for one in update.run] == [("else", "low")]
    gone = tasks.change({"do": "remove", "target": "task-def"}, "b" * 16, NOW)
    assert Tasks([], [task("task-def"), *gone.run]).open == []


@bundle(
    ("note", "why"),
    [
        ({"do": "complete", "target": "task-x"}, "unknown entry 'task-x'; known entries: task-def, task-abc"),
        ({"do": "complete", "target": "task-"}, "'task-' matches task-def, task-abc"),
        ({"do": "add", "text": " "}, "the text is empty"),
        ({"do": "add", "text": "x", "priority": "urgent"}, "is not a priority"),
        ({"do": "fly"}, "unknown change"),
    ],
)
def test_what_cannot_be_done_says_why(note: dict[str, object], why: str) -> None:
    """And nothing is added."""
    with pytest.raises(InvalidChange, match=why):
        Tasks([task("task-abc")], [task("task-def")]).change(note, "b" * 16, NOW)


def test_ids_come_from_the_message_and_never_meet() -> None:
    """Nobody who adds has to know what others add at the same time."""
    tasks = Tasks()
    added = [
        tasks.change({"do": "add", "text": "x"}, name, NOW).project[0]["id"] for name in ("0" * 16, "0" * 15 + "1")
    ]

    assert added == ["task-0000000000000000", "task-0000000000000001"]


def test_entries_are_added_once_behind_whatever_a_file_holds(tmp_path: Path) -> None:
    """A torn last line, lines that are no entries, an entry that a crash had let stand."""
    path = tmp_path / "new" / "tasks.jsonl"
    files = EntryFiles(path)
    files.add(NoteChange(said="", project=(task("task-1"),)))
    with path.open("ab") as file:
        file.write(b'[1]\n{"id": 3}\n{bad')
    files.add(NoteChange(said="", project=(task("task-1"), task("task-2", "ä"))))

    assert [one["id"] for one in entries.read(path)] == ["task-1", "task-2"]
    assert path.read_text(encoding="utf-8").count("task-1") == 1
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["text"] == "ä"


def test_entries_are_parsed_once_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration costs the same however many there are; one that was added is seen at once."""
    monkeypatch.setattr(file_fingerprint, "SETTLED", -(10**12))
    files = EntryFiles(project=tmp_path / "tasks.jsonl", run=tmp_path / "run.jsonl")
    assert Tasks.of(files).open == []
    files.add(NoteChange(project=(task("task-1"),), run=(task("task-2", status="done"),)))
    tasks = Tasks.of(files)
    assert ([one["id"] for one in tasks.open], [one["id"] for one in tasks.done]) == (["task-1"], ["task-2"])
    with audited() as calls:
        assert Tasks.of(files).render(100) == tasks.render(100)
        assert Tasks.of(files).blocking() == tasks.blocking()
    assert calls == []

    files.add(NoteChange(run=(task("task-3"),)))
    assert [one["id"] for one in Tasks.of(files).open] == ["task-1", "task-3"]
    files.project.unlink()
    assert [one["id"] for one in Tasks.of(files).open] == ["task-3"]
    assert [one["id"] for one in Memory.of(files).find()] == ["task-2", "task-3"]


def test_a_file_that_changed_just_now_is_parsed_again(tmp_path: Path) -> None:
    """The next change may leave it the same size and times."""
    files = EntryFiles(project=tmp_path / "tasks.jsonl")
    files.add(NoteChange(project=(task("task-1"),)))
    Tasks.of(files)
    with audited() as calls:
        Tasks.of(files)
    assert [event for event, _ in calls] == ["open"]


def test_of_many_files_the_latest_are_remembered(tmp_path: Path) -> None:
    """A process that drives ever new runs does not keep their entries."""
    for n in range(40):
        Tasks.of(EntryFiles(project=tmp_path / f"{n}.jsonl"))
    assert len(collection._READ) == collection._MOST_READ
