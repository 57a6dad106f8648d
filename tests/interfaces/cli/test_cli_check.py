"""`coterie topology check`: the verdict, the scripts, the prices, the status."""

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.interfaces.cli import app

TEAM = """\
topology review : [pipeline] {
  agent writer { model: m }
  agent reviewer { model: m  outputs: { verdict: approve | revise } }
  agent publisher { model: m }
  flow {
    writer -> reviewer
    reviewer -> writer [when reviewer.verdict == revise, max 2]
    reviewer -> publisher [when reviewer.verdict == approve]
  }
}
"""
ENDLESS = """\
topology endless : [pipeline] {
  agent a { model: m }
  agent b { model: m  on-fail: fallback a }
  flow {
    a -> b
    b -> b [max 2, per a]
  }
}
"""


@pytest.fixture(autouse=True)
def teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("team.at").write_text(TEAM)
    Path("endless.at").write_text(ENDLESS)


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert app.main(["topology", "check", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_verdict_says_the_worst_and_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    """With what a turn costs, that too; a note does not change the status."""
    assert app.main(["topology", "check", "team.at", "--price", "0.02", "--price", "publisher=1"]) == 0
    out = capsys.readouterr().out

    assert "team.at:7:5: note[spent]: reviewer -> writer" in out
    assert "team.at: every run ends (" in out
    assert "\n  at most 7 turns (writer 3, reviewer 3, publisher 1)\n" in out
    assert "\n  at most $1.12; $1.18 if every turn uses all its retries\n" in out
    assert "\n  at least 3 turns, when nothing fails\n" in out


def test_the_scripts_are_written_and_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is told with the command that shows it, and the command shows it."""
    assert app.main(["topology", "check", "team.at", "--scripts", "runs"]) == 0
    out = capsys.readouterr().out

    assert sorted(path.name for path in Path("runs").iterdir()) == ["best.json", "spent.json", "worst.json"]
    assert '    reproduce: coterie run team.at "…" --rehearse runs/worst.json' in out.splitlines()
    assert app.main(["run", "team.at", "go", "--rehearse", "runs/worst.json", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["turns"]) == 7


def test_as_json_it_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """One object: the numbers, the findings as diagnostics, the scripts in place."""
    report = as_json(capsys, "team.at", "--price", "0.5")

    assert set(report) == {
        *("file", "plan", "method", "states", "ends", "worst", "best", "usual", "cost", "joins", "findings"),
    }
    assert (report["file"], report["method"], report["ends"]) == ("team.at", "exact", True)
    assert (report["worst"]["turns"], report["cost"]["turns"]) == (7, 3.5)
    (spent,) = report["findings"]
    assert (spent["code"], spent["severity"], spent["line"]) == ("spent", "note", 7)
    assert spent["script"] == {"reviewer": [{"outputs": {"verdict": "revise"}}]}


def test_too_many_states_are_counted_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A bound is never told as if it were reached."""
    assert app.main(["topology", "check", "team.at", "--states", "2"]) == 0
    out = capsys.readouterr().out

    assert "note[too-many-states]: too many states to explore" in out
    assert "at most 7 turns (writer 3, reviewer 3, publisher 1); not proved to be reachable" in out
    assert "at least" not in out


def test_a_team_that_need_not_end_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It passes validate, which looks at the arrows only: here a failure begins the count anew."""
    assert app.main(["topology", "validate", "endless.at"]) == 0
    capsys.readouterr()

    assert app.main(["topology", "check", "endless.at"]) == 1
    out = capsys.readouterr().out
    assert "error[endless]: a run can go on forever" in out
    assert "endless.at: some runs may not end" in out
    assert "at most" not in out


def test_a_file_that_is_wrong_is_not_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is told as by validate."""
    Path("wrong.at").write_text(TEAM.replace("reviewer -> publisher", "reviewer -> publishr"))

    assert app.main(["topology", "check", "wrong.at"]) == 1
    out, err = capsys.readouterr()
    assert (out, "unknown-agent" in err) == ("", True)


def test_as_json_a_file_that_is_wrong_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The one that validate prints, and nothing beside it."""
    Path("wrong.at").write_text(TEAM.replace("reviewer -> publisher", "reviewer -> publishr"))
    assert app.main(["topology", "validate", "wrong.at", "--json"]) == 1
    validated = capsys.readouterr()

    assert app.main(["topology", "check", "wrong.at", "--json"]) == 1
    checked = capsys.readouterr()
    assert (checked.out, checked.err) == (validated.out, "")
    assert json.loads(checked.out)["valid"] is False


def test_a_loop_is_checked_under_the_settings_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown setting, or a value of the wrong type, is an error of the command."""
    Path("topology.toml").write_text('name = "l"\n[[role]]\nid = "a"\nemits = ["task.complete"]\nprompt = "p"\n')

    assert app.main(["topology", "check", ".", "--set", "event_loop.max_iterations=7"]) == 0
    assert "at most 13 turns (a 7, @review 6)" in capsys.readouterr().out
    for command in (["topology", "check", "."], ["simulate", ".", "--seeds", "1", "--jobs", "1"]):
        assert app.main([*command, "--set", "event_loop.max_iteratons=7"]) == 2
        assert "unknown setting 'event_loop.max_iteratons'; did you mean" in capsys.readouterr().err
    assert app.main(["topology", "check", ".", "--set", "event_loop.max_iterations=many"]) == 2
    assert "event_loop.max_iterations must be a whole number, not 'many'" in capsys.readouterr().err


def test_a_team_without_a_flow_cannot_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be proved where nothing is run: the status says what the words say."""
    Path("still.at").write_text("topology still : [pipeline] { agent a { model: m } }")
    assert app.main(["topology", "validate", "still.at"]) == 1
    capsys.readouterr()

    assert app.main(["topology", "check", "still.at"]) == 1
    assert "still.at:1:1: error[no-flow]: 'still' has no flow, so there is nothing to run" in capsys.readouterr().err
    assert app.main(["topology", "check", "still.at", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["file"], document["valid"]) == ("still.at", False)
    assert [(one["code"], one["severity"]) for one in document["diagnostics"]] == [("no-flow", "error")]


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ("much", "--price must be USD or AGENT=USD, not 'much'"),
        ("-1", "--price must be USD or AGENT=USD, not '-1'"),
        ("writer=", "--price must be USD or AGENT=USD, not 'writer='"),
        ("nan", "--price must be USD or AGENT=USD, not 'nan'"),
        ("writr=1", "--price: no run calls 'writr'; did you mean 'writer'?"),
    ],
)
def test_a_price_that_means_nothing_is_refused(price: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it could be."""
    assert app.main(["topology", "check", "team.at", f"--price={price}"]) == 2
    assert says in capsys.readouterr().err
