"""`run` says what a file says about safety and nothing enforces."""

import subprocess
from pathlib import Path

import pytest
from command_line import Place

TEAM = """topology t : [pipeline] {
  settings { deny: ["Read(./secrets/**)"] }
  env { MODE: fast  LEVEL: "${LEVEL_OF_THE_TEST}"  TOKEN: secret "vault://team/token" }
  extensions { coterie { command: ["sh", "-c", "echo $MODE $LEVEL $TOKEN."] } }
  agent a { model: m  tools: [Read] }
  agent b { model: m  tools: [Read]  permissions: plan }
  flow { a -> b }
}
"""

SAID = [
    "t.at:2:20: warning[not-enforced]: the backend 'command' of agents 'a' and 'b' does not enforce 'deny' of "
    "'settings'",
    "t.at:3:59: warning[not-enforced]: 'TOKEN' of 'env' is not set: 'secret' values cannot be read yet",
    "t.at:5:30: warning[not-enforced]: the backend 'command' of agent 'a' does not enforce 'tools'",
    "t.at:6:30: warning[not-enforced]: the backend 'command' of agent 'b' does not enforce 'tools' and 'permissions'",
]


def test_a_run_says_what_is_not_enforced_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, with its place; `validate` says the same. The variables of the file are those of its programs."""
    monkeypatch.setenv("LEVEL_OF_THE_TEST", "high")
    monkeypatch.delenv("TOKEN", raising=False)
    place = Place(tmp_path)
    (tmp_path / "t.at").write_text(TEAM)

    said, _ = place.start("run", "t.at", stderr=subprocess.STDOUT).communicate(timeout=60)
    *before, began = said.splitlines()[: len(SAID) + 1]

    assert before == [SAID[0], f"{SAID[1]}; set TOKEN in the environment of the run", *SAID[2:]]
    assert "began" in began
    assert "fast high ." in said
    checked = place.look("topology", "validate", "t.at")
    assert [line for line in (checked.out + checked.err).splitlines() if "[not-enforced]" in line] == SAID


def test_a_team_in_another_file_is_warned_about_at_its_node(tmp_path: Path) -> None:
    """The run of a nested team has no other moment to say it."""
    place = Place(tmp_path)
    (tmp_path / "t.at").write_text(TEAM)
    (tmp_path / "outer.at").write_text(
        'topology o : [pipeline] { agent x { extensions { coterie { topology: "t.at" } } }\n'
        '  agent y { extensions { coterie { command: ["true"] } } }  flow { x -> y } }\n'
    )

    said = place.call("run", "outer.at").err
    assert "t.at:5:30: the backend 'command' of agent 'a' does not enforce 'tools'" in said


def test_a_slot_of_a_pattern_is_warned_about(tmp_path: Path) -> None:
    """YAML has the same fields."""
    place = Place(tmp_path)
    (tmp_path / "p.pattern.yaml").write_text(
        "pattern:\n  name: p\n  type: ensemble\n  slots:\n"
        "    one: {command: [echo, a], tools: [Read]}\n    two: {command: [echo, a]}\n"
    )

    assert (
        "the backend 'command' of agent 'one' does not enforce 'tools'" in place.call("run", "p.pattern.yaml", "x").err
    )
