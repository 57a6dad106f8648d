import json
from pathlib import Path

import pytest

from coterie.interfaces.cli import app

TEAM = """\
topology review : [pipeline] {
  meta { description: "Reviews a change" }
  agent planner { model: opus }
  agent writer { model: sonnet }
  agent reviewer {
    outputs { verdict: approve | revise }
    extensions { coterie { command: ["{python}", "check it.py"] } }
  }
  human boss { }
  agent spare { model: haiku  invocation: manual }
  flow {
    planner -> writer -> reviewer
    reviewer -> writer [when reviewer.verdict == "revise"]
    reviewer -> boss [when reviewer.verdict == "approve"]
  }
}
"""
WRONG = """\
topology wrong : [pipeline] {
  agent a { model: m  modle: n }
  flow { a -> bb }
}
"""


@pytest.fixture(autouse=True)
def teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("team.at").write_text(TEAM)
    Path("wrong.at").write_text(WRONG)


def test_each_file_gets_a_verdict_and_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """Findings with the line they point at go to standard error, verdicts to standard output; a missing file is 2."""
    assert app.main(["topology", "validate", "team.at", "wrong.at", "gone.at"]) == 2

    told = capsys.readouterr()
    assert told.out.splitlines() == ["team.at: ok, 1 warning", "wrong.at: 1 error, 1 warning", "gone.at: 1 error"]
    assert "\n  3 |   flow { a -> bb }\n    |               ^^" in told.err
    assert told.err.startswith("team.at:13:5: warning[")


def test_a_valid_file_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning does not make it invalid."""
    assert app.main(["topology", "validate", "team.at"]) == 0


def test_findings_as_json_are_one_line_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The same findings with their places, and nothing on standard error."""
    assert app.main(["topology", "validate", "--json", "team.at", "wrong.at"]) == 1

    told = capsys.readouterr()
    right, wrong = map(json.loads, told.out.splitlines())
    assert told.err == ""
    assert list(right) == ["file", "valid", "diagnostics"]
    assert (right["file"], right["valid"], wrong["file"], wrong["valid"]) == ("team.at", True, "wrong.at", False)
    assert list(wrong["diagnostics"][0]) == ["code", "severity", "message", "file", "line", "column", "length", "hint"]
    assert [(one["severity"], one["line"], one["column"], one["length"]) for one in wrong["diagnostics"]] == [
        ("warning", 2, 23, 5),
        ("error", 3, 15, 2),
    ]


def test_what_only_a_run_refuses_is_a_warning_of_a_valid_file(capsys: pytest.CaptureFixture[str]) -> None:
    """A flow through a group is good notation; `run` says the same as an error."""
    Path("group.at").write_text(
        "topology t : [pipeline] {\n"
        "  agent a { model: m }  agent m1 { model: m }  agent m2 { model: m }\n"
        "  group panel { members: [m1, m2]  speaker-selection: round-robin  max-rounds: 2 }\n"
        "  flow { a -> panel }\n"
        "}\n"
    )
    assert app.main(["topology", "validate", "group.at"]) == 0
    assert "warning[cannot-run-group]" in capsys.readouterr().err

    assert app.main(["run", "group.at", "--rehearse"]) == 1
    assert "error[cannot-run-group]" in capsys.readouterr().err


def test_a_prompt_that_lies_outside_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """What planning finds counts, with the file's name and place."""
    Path("inner").mkdir()
    Path("secret.md").write_text("Psst.")
    Path("inner/team.at").write_text(
        'topology t : [pipeline] {\n  agent a { model: m  prompt: "../secret.md" }\n'
        "  agent b { model: m }\n  flow { a -> b }\n}\n"
    )

    assert app.main(["topology", "validate", "inner/team.at"]) == 1
    assert "inner/team.at:2:" in capsys.readouterr().err


def test_show_draws_the_team(capsys: pytest.CaptureFixture[str]) -> None:
    """Who thinks, what comes back, and the arrows with their bounds, the implied one too."""
    assert app.main(["topology", "show", "team.at"]) == 0

    assert capsys.readouterr().out == (
        "review [pipeline]\n"
        "  Reviews a change\n"
        "├─ planner (agent, opus, no backend chosen, starts)\n"
        "│    -> writer\n"
        "├─ writer (agent, sonnet, no backend chosen)\n"
        "│    -> reviewer\n"
        "├─ reviewer (agent, '{python}' 'check it.py')\n"
        "│    gives verdict: approve | revise\n"
        '│    -> writer  [when reviewer.verdict == "revise", max 10 (implied: the file gives none)]  loop\n'
        '│    -> boss  [when reviewer.verdict == "approve"]\n'
        "├─ boss (human)\n"
        "└─ spare (agent, haiku, not in the flow)\n"
    )


def test_show_as_json_is_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes and arrows as plain data."""
    assert app.main(["topology", "show", "team.at", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["patterns"]) == ("review", ["pipeline"])
    reviewer = next(node for node in shown["nodes"] if node["name"] == "reviewer")
    assert reviewer["arrows"][0] == {
        "targets": ["writer"],
        "event": "",
        "when": 'reviewer.verdict == "revise"',
        "max": 10,
        "per": "run",
        "implied": True,
        "on_max": "forward",
        "kept": [],
        "loop": True,
    }


def test_show_tells_what_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    """Attributes at their arrow, then each thing in a sentence; a gate stands on its arrow."""
    Path("kept.at").write_text(
        "topology t : [fan-out] {\n"
        "  agent a { model: m }  agent b { model: m }  agent c { model: m }\n"
        '  gates { gate g { after: a before: c run: "true" }  gate h { after: c run: "true" } }\n'
        "  batch { per: ticket }\n"
        "  flow { a -> [b, c] [race]  b -> b [when b.v == x, max 2, on-max end] }\n"
        "}\n"
    )
    assert app.main(["topology", "show", "kept.at"]) == 0

    assert capsys.readouterr().out == (
        "t [fan-out]\n"
        "├─ a (agent, m, no backend chosen, starts)\n"
        "│    -> [b, c]  [race]\n"
        "├─ b (agent, m, no backend chosen)\n"
        '│    -> b  [when b.v == "x", max 2, on-max end]  loop\n'
        "├─ c (agent, m, no backend chosen)\n"
        "├─ g (gate, true, on a -> c)\n"
        "└─ h (gate, true, after c)\n"
        "'per' of 'batch' is kept but has no effect yet\n"
        "'race' on a -> [b, c] is kept but has no effect yet\n"
    )


def test_show_of_a_file_with_errors_tells_them_and_draws_what_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The status says that it is not valid."""
    assert app.main(["topology", "show", "wrong.at"]) == 1

    told = capsys.readouterr()
    assert "error[" in told.err
    assert "└─ bb (undeclared)" in told.out
    assert app.main(["topology", "show", "gone.at"]) == 2
    assert capsys.readouterr().out == ""


def test_show_draws_the_teams_within(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the node where they answer, with their own loops; what an agent uses is there as well."""
    Path("outer.at").write_text(
        "topology outer : [pipeline] {\n"
        '  agent lead { model: opus  description: "Leads"  tools: [Read]  retry: 1 }\n'
        '  agent inner { extensions { coterie { topology: "team.at" } } }\n'
        "  flow { lead -> inner }\n"
        "}\n"
    )
    assert app.main(["topology", "show", "outer.at"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:9] == [
        "outer [pipeline]",
        "├─ lead (agent, opus, no backend chosen, starts)",
        "│    Leads",
        "│    uses Read",
        "│    retry 1",
        "│    -> inner",
        "└─ inner (agent, topology review)",
        "     review",
        "     ├─ planner (agent, opus, no backend chosen, starts)",
    ]
    assert (
        '     │    -> writer  [when reviewer.verdict == "revise", max 10 (implied: the file gives none)]  loop' in lines
    )
    assert app.main(["topology", "show", "outer.at", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][1]["team"]["name"] == "review"


def test_show_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lines are broken between words, below where they began; elsewhere none is."""
    monkeypatch.setattr("coterie.interfaces.cli.topology.width", lambda: 60)
    assert app.main(["topology", "show", "team.at"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    at = lines.index('│    -> writer  [when reviewer.verdict == "revise", max 10')
    assert lines[at + 1] == "│      (implied: the file gives none)]  loop"


def test_what_has_one_remedy_is_mended_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """With --fix: what was done is told, and what is left is found as ever."""
    Path("wrong.at").write_text(WRONG.replace("a { model: m  modle: n }", "a { modle: n }").replace("a ->", "a =>"))
    assert app.main(["topology", "validate", "--fix", "wrong.at", "gone.at"]) == 2

    told = capsys.readouterr()
    assert told.err.splitlines()[:2] == ["wrong.at:2:13: fixed: correct the name", "wrong.at:3:12: fixed: write '->'"]
    assert "error[unknown-agent]" in told.err
    assert Path("wrong.at").read_text().splitlines()[1:3] == ["  agent a { model: n }", "  flow { a -> bb }"]
    assert told.out.splitlines() == ["wrong.at: 1 error", "gone.at: 1 error"]
