"""What the command line shows of a run on its plan, its costs, its first failure, and of two runs."""

import json
from pathlib import Path

import pytest
from command_line import Place

from coterie.execution.runs import repository
from coterie.interfaces.cli import views


def shown(place: Place, *words: str, status: int = 0) -> str:
    """The output of a command, without blanks that only align it."""
    said = place.call(*words, status=status)
    return "\n".join(" ".join(line.split()) for line in said.out.splitlines())


@pytest.mark.slow
def test_a_run_is_shown_on_its_plan(place: Place) -> None:
    """Nodes with state and count, arrows with firings, the team at a node below; and the same as JSON."""
    place.call("run", "nested.at", "Do it")
    text = shown(place, "inspect", "last", "plan")
    value = json.loads(place.call("inspect", "last", "plan", "--json").out)

    for line in (
        "nested: completed, 7 turns done",
        "inner finished 1 last inner#1",
        "writer -> inner: fired 1x, last after writer#1",
        "reviewer finished 2 last reviewer#2",
        'reviewer -> writer when verdict == "revise", max 3: fired 1x, last after reviewer#1',
    ):
        assert line in text
    assert set(value["teams"]) == {"", "inner"}
    assert [row["place"] for row in value["runs"].values()] == ["", "inner"]


def test_the_first_failure_costs_and_changes_of_a_run(place: Place) -> None:
    """Of a failed run the turn with its output; `live` gives what changed since a position that it printed."""
    place.call("run", "broken.at", "Do it", status=1)
    failure = shown(place, "inspect", "last", "failure")
    whole = json.loads(place.call("inspect", "last", "live", "--json").out)
    printed = shown(place, "inspect", "last", "live")
    position = printed.rpartition("position: ")[2]
    seq = int(position) - 1

    assert "broken#1 of" in failure
    assert failure.count("it is broken") >= 1
    assert "turn 'broken#1'" in failure
    assert "worst case: 3 turns" in shown(place, "inspect", "last", "cost")
    assert json.loads(place.call("inspect", "last", "cost", "--json").out)["worst"]["turns"] == 3
    assert json.loads(place.call("inspect", "last", "live", "--since", position, "--json").out) == {}
    changed = json.loads(place.call("inspect", "last", "live", "--since", str(seq), "--json").out)
    assert set(changed) == {"position", "runs"}
    assert changed["runs"] == whole["runs"]


def test_records_in_pages(place: Place) -> None:
    """The page that is asked for, of sentences and of records."""
    place.call("run", "loop.at", "Do it")
    lines = json.loads(place.call("inspect", "last", "timeline", "--from", "3", "--limit", "2", "--json").out)
    records = json.loads(place.call("inspect", "last", "journal", "--from", "3", "--limit", "1", "--json").out)

    assert [(line["seq"], line["turn"]) for line in lines] == [(3, "writer#1"), (4, "writer#1")]
    assert [(one["seq"], one["topic"]) for one in records] == [(3, "turn.started")]
    assert place.call("inspect", "last", "journal", "--from", "3", "--limit", "1").out.count("\n") == 1


def test_two_runs_are_compared(place: Place) -> None:
    """The exit status says whether a turn differs; the prompts of the first that does are shown."""
    place.call("run", "loop.at", "Do it")
    first = json.loads(place.call("runs", "--json").out)[0]["run"]
    place.call("run", "loop.at", "Do it otherwise")
    text = shown(place, "runs", "diff", first, "last", status=1)
    value = json.loads(place.call("runs", "diff", first, "last", "--json", status=1).out)

    assert "the first difference is in writer#1" in text
    assert "-Do it\n+Do it otherwise" in text
    assert (value["first"], value["differs"], len(value["pairs"])) == ("writer#1", ["input"], 5)
    assert "all 5 turns are the same" in shown(place, "runs", "diff", first, first)


def test_the_overview_begins_with_those_that_need_a_person(place: Place) -> None:
    """Then come those that failed, then those that completed."""
    place.call("run", "human.at", "Ask", "--park", status=4)
    place.call("run", "broken.at", "Do it", status=1)
    place.call("run", "loop.at", "Do it")
    value = json.loads(place.call("runs", "overview", "--json").out)
    text = shown(place, "runs", "overview")

    assert [(one["entry"]["group"], one["entry"]["team"]) for one in value["runs"]] == [
        ("person", "human"),
        ("failed", "broken"),
        ("completed", "loop"),
    ]
    assert value["runs"][0]["details"]["attention"] == 1
    assert "human: waits for a person" in text
    assert "1 thing to answer" in text


def test_a_journal_is_printed_as_its_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In parts, so that a long one is not in memory, and without the padding at its end."""
    monkeypatch.setattr(repository, "_PART", 10)
    runs = repository.Runs(tmp_path)
    runs.folder("r").mkdir(parents=True)
    text = '  {"seq":1}\n{"seq":2,"text":"é"} \n   \n{"seq":3} \n'
    runs.file("r").write_text(text + "\t" * 50)

    views.print_journal(runs, "r")

    assert capsys.readouterr().out == text.rstrip() + "\n"
