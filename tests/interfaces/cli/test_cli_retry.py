"""`coterie resume --retry`: a failed run goes on; what is not retried says what to type."""

import json
import re
from pathlib import Path

from command_line import Place

TOOL = 'extensions {{ coterie {{ command: ["sh", "-c", "{does}"] }} }}'
WRITER, LAST = TOOL.format(does="echo draft"), TOOL.format(does="echo end")


def team(place: Place, does: str = "test -e ok", more: str = "", name: str = "t") -> None:
    """A flow of three programs; the second one does *does*."""
    agents = f"agent a {{ {WRITER} }} agent b {{ {more} {TOOL.format(does=does)} }} agent c {{ {LAST} }}"
    (place.folder / f"{name}.at").write_text(
        f"topology {name} : [pipeline] {{\n{agents.replace('agent', chr(10) + 'agent')}\nflow {{ a -> b -> c }}\n}}\n"
    )


def journal(place: Place, run: str = "last") -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(place.look("inspect", run, "journal", "--json").out)
    return found


def test_the_printed_line_retries_what_failed_the_run(place: Place) -> None:
    """It is the last line of a failed run, in words and with the run's id, and the run completes with it."""
    team(place)
    *_, head, line = place.call("run", "t.at", "go", status=1).err.splitlines()
    assert head == "retry what failed it with:"
    words = line.split()
    assert (words[:2], words[3]) == (["coterie", "resume"], "--retry")
    again = place.call(*words[1:], "--json", status=1)
    assert json.loads(again.out)["way_on"] == "retry"
    assert json.loads(again.out)["failed_turns"] == ["b#1"]

    (place.folder / "ok").touch()
    done = place.call(*words[1:])
    assert done.out == "end\n"
    assert "an operator reopened the run; retried: b#1" in done.err
    assert "failed turn" not in done.err.splitlines()[-1], "nothing was skipped"
    assert [one["topic"] for one in journal(place)].count("run.reopened") == 2
    shown = place.call("watch", "last")
    assert shown.out.splitlines()[-1].endswith(": completed")
    assert shown.err == ""
    assert "agrees" in place.look("replay", "last").out
    assert json.loads(place.look("runs", "--json").out)[0]["state"] == "completed"
    assert "2 turns" not in place.look("stats").out
    logs = [line.partition(" | ")[0] for line in place.call("logs", "-f", "last").out.splitlines()]
    assert logs == ["a#1", "c#1"]


def test_a_retry_may_take_the_files_as_they_are_now(place: Place) -> None:
    """With another command, more retries and another rule for failures."""
    team(place, "false")
    place.call("run", "t.at", "go", status=1)
    team(place, "echo mended", "retry: 3 on-fail: skip")
    other = f"agent a {{ {WRITER} }} agent c {{ {LAST} }} flow {{ a -> c }}"
    (place.folder / "u.at").write_text(f"topology t : [pipeline] {{ {other} }}")
    said = place.call("resume", "last", "--retry", "--reload", "u.at", status=1).err
    assert re.search(r"`coterie fork \S+ --at \d+` goes on .*; add --reload u.at to take its plan there\n$", said)
    place.call("resume", "last", "--retry", "b#1", "--reload", "t.at")
    texts = [one.get("text") for one in journal(place) if one["topic"] == "turn.finished"]
    assert texts == ["draft\n", "mended\n", "end\n"]
    assert [one["topic"] for one in journal(place)][-10:-7] == ["run.reopened", "plan.reloaded", "run.owned"]
    assert "agrees" in place.look("replay", "last").out


REFUSED = [
    ("done --retry", 1, r"it has completed; `coterie fork \S+ --at SEQ` begins a new run"),
    (
        "limited --retry",
        1,
        r"it did not fail, it was stopped \(max_turns\); `coterie resume \S+ --max-turns N` continues it",
    ),
    ("failed", 1, r"has failed: `coterie resume \S+ --retry` retries what failed it"),
    ("failed --retry x#1", 1, r"it has no turn 'x#1'.*; `coterie resume \S+ --retry b#1` retries a turn"),
    ("failed --retry=b", 1, r"it has no turn 'b'.*`coterie resume \S+ --retry b#1`"),
    ("failed --retry a#1", 1, r"a#1 did not fail; `coterie resume \S+ --retry b#1`"),
    (
        "failed done --retry",
        2,
        r"--retry is for one run, not for \S+ and .*; write coterie resume \S+ --retry, or --retry NAME#N",
    ),
    ("nowhere --retry", 1, r"there is no run 'nowhere'; .*`coterie runs --all` lists them"),
    ("spent --retry", 1, r"no failed turn ended it, .*; `coterie fork \S+ --at 5` begins a new run before that"),
]


def test_what_is_not_retried_says_what_to_type(place: Place) -> None:
    """One line: what was found, and the command that helps."""
    team(place)
    team(place, "echo fine", name="ok")
    spent = f"agent a {{ outputs {{ more: yes | no }} {TOOL.format(does='echo more: yes')} }}"
    flow = "flow { a -> a [when a.more == yes, max 1, on-max fail] }"
    (place.folder / "spent.at").write_text(f"topology spent : [pipeline] {{\n{spent}\n{flow}\n}}\n")
    runs = {}
    for name, words, status in (
        ("done", ["ok.at"], 0),
        ("limited", ["ok.at", "--max-turns", "1"], 3),
        ("failed", ["t.at"], 1),
        ("spent", ["spent.at"], 1),
    ):
        place.call("run", *words, "--no-snapshots", status=status)
        runs[name] = json.loads(place.look("runs", "--json", "--limit", "1").out)[0]["run"]
    wrong = []
    for line, status, says in REFUSED:
        said = place.look("resume", *[runs.get(word, word) for word in line.split()], status=status).err
        wrong += [(line, said)] if not re.search(says, said) or said.count("\n") != 1 else []
    assert not wrong


def test_a_run_that_a_process_drives_is_not_retried(place: Place) -> None:
    """It is that process's, whatever state its journal is in."""
    process = place.start_slow()
    try:
        assert "is owned by a living process" in place.call("resume", "last", "--retry", status=1).err
    finally:
        process.terminate()
        process.communicate()


def test_a_failed_run_that_is_watched_ends_with_the_next_command(place: Place) -> None:
    """As one that is run does."""
    team(place)
    place.call("run", "t.at", "go", status=1)
    said = place.call("watch", "last")
    assert said.out.splitlines()[-1].endswith(": failed")
    assert said.err.splitlines()[-2] == "retry what failed it with:"
    Path(place.folder / "ok").touch()
    place.call(*said.err.split()[-4:][1:])
