"""Patterns on the command line: run, carried on, looked at, checked, drawn, compared."""

import json
from pathlib import Path

import preforked
import pytest
from command_line import Place

SAY = """
prompt=$(tr '\\n' ' ')
echo "$COTERIE_TURN: $prompt" >> prompts.log
echo "$COTERIE_AGENT has spoken"
"""
TALK = """
pattern:
  type: debate
  description: Two sides and a judge
  config: {max_rounds: 1}
  slots:
    proponent: ada
    opponent: {agent: ada, prompt: "Doubt it.", capabilities: [doubt], budget: {calls: 2}}
    mediator: {command: [sh, say.sh]}
agents:
  ada: {command: [sh, say.sh], prompt: "Believe it."}
"""
OWN = """
from coterie.patterns import Question, pattern
from coterie.team.topology.patterns.configs import Config


class Manners(Config, frozen=True, kw_only=True):
    polite: bool = True


@pattern("own-medicine", key="prompt", config=Manners)
def second_opinion(team, given):
    please = "Please say: " if team.config.polite else ""
    first = yield Question("doctor", please + given["prompt"])
    second = yield Question("colleague", f"{first.text.strip()}? Do you agree?")
    return f"{first.text.strip()} / {second.text.strip()}"
"""
OWN_TEAM = """
pattern:
  type: own_medicine:second_opinion
  slots:
    doctor: {command: [sh, say.sh]}
    colleague: {command: [sh, say.sh]}
"""
FLOW = """
topology release : [pipeline] {
  import "panel.pattern.yaml" as panel
  agent good { extensions { coterie { command: [sh, say.sh] } } }
  agent bad { extensions { coterie { command: [sh, say.sh] } } }
  flow {
    panel -> good  [when panel.final_approved == true]
    panel -> bad   [when panel.final_approved == false]
  }
}
"""
PANEL = """
pattern:
  type: crosscheck
  slots:
    primary: {command: [echo, "42"]}
    checker_1: {command: [echo, '{"approved": true}']}
    checker_2: {command: [echo, '{"approved": %s}']}
    checker_3: {command: [echo, '{"approved": %s}']}
"""


@pytest.fixture
def talk(place: Place) -> Place:
    """A folder with a debate of small programs."""
    (place.folder / "say.sh").write_text(SAY)
    (place.folder / "talk.pattern.yaml").write_text(TALK)
    (place.folder / "own_medicine.py").write_text(OWN)
    (place.folder / "own.pattern.yaml").write_text(OWN_TEAM)
    return place


def prompts(place: Place) -> dict[str, str]:
    """What was asked in each turn."""
    lines = (place.folder / "prompts.log").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_a_debate_runs_from_its_file(talk: Place) -> None:
    """Its result has the keys of a debate."""
    document = json.loads(talk.look("run", "talk.pattern.yaml", "--input", "question=Will it rain?", "--json").out)

    assert (document["outcome"], document["usage"]["turns"]) == ("completed", 3)
    debate = document["result"]["outputs"]["debate"]
    assert (debate["question"], debate["rounds"]) == ("Will it rain?", 1)
    assert [one["argument"].strip() for one in debate["debate_history"]] == [
        "proponent has spoken",
        "opponent has spoken",
    ]
    asked = prompts(talk)
    assert asked["proponent#1"].startswith("Believe it.")
    assert asked["opponent#1"].startswith("Doubt it.")


def test_a_stopped_run_goes_on_and_is_replayed_looked_at_and_forked(talk: Place) -> None:
    """As every run does."""
    talk.call("run", "talk.pattern.yaml", "--input", "question=why", "--max-turns", "2", status=3)
    assert "completed: 3 turns" in talk.call("resume", "last", "--max-turns", "none").err
    assert list(prompts(talk)) == ["proponent#1", "opponent#1", "mediator#1"]

    assert "agrees" in talk.look("replay", "last").out
    assert "proponent sent opponent a message (broadcast)" in talk.look("inspect", "last").out
    shown = talk.look("inspect", "last", "topology").out
    assert "pattern: debate" in shown
    assert "max_rounds: 1" in shown
    (talk.folder / "other.md").write_text("Judge with care.")
    forked = talk.call("fork", "last", "--at", "13", "--prompt", "mediator=other.md")
    assert "completed" in forked.err
    assert prompts(talk)["mediator#1"].startswith("Judge with care.")


@pytest.mark.slow
def test_a_prompt_that_was_edited_after_a_failure_is_no_longer_answered(talk: Place) -> None:
    """The old answer is not taken for one to the new question: both are shown, and the way on."""
    fails = OWN_TEAM.replace("colleague: {command: [sh, say.sh]}", "colleague: {command: ['false']}")
    (talk.folder / "own.pattern.yaml").write_text(fails)
    run = preforked.run("run", "own.pattern.yaml", "Bitter?", cwd=talk.folder)
    assert run.returncode == 1, run.stderr
    (talk.folder / "own_medicine.py").write_text(OWN.replace("Please say: ", "Do say: "))
    edited = preforked.run("resume", "last", "--retry", cwd=talk.folder)

    assert edited.returncode == 1
    assert "which asks 'Please say: Bitter?'" in edited.stderr
    assert "wants Ask doctor#1, which asks 'Do say: Bitter?'" in edited.stderr
    assert "--at 2`" in edited.stderr
    forked = preforked.run("fork", "last", "--at", "2", cwd=talk.folder)
    assert prompts(talk)["doctor#1"] == "Do say: Bitter?", forked.stderr


def test_a_pattern_is_rehearsed_without_anybody(talk: Place) -> None:
    """In virtual time, with a script or without."""
    (talk.folder / "script.json").write_text(json.dumps({"mediator": [{"text": "CONCLUSION: It will."}]}))
    said = talk.look("run", "talk.pattern.yaml", "why", "--rehearse", "script.json", "--json")

    assert [turn["agent"] for turn in json.loads(said.out)["turns"]] == ["proponent", "opponent", "mediator"]
    assert not (talk.folder / "prompts.log").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("talk.pattern.yaml",), "talk: Debate needs an input `question` or `topic`; --input question=…"),
        (("talk.pattern.yaml", "--rehearse"), "talk: Debate needs an input `question` or `topic`; --input question=…"),
        (("own.pattern.yaml",), "own: own-medicine needs an input `prompt`; --input prompt=…"),
        (("none.pattern.yaml", "why"), "there is no file 'none.pattern.yaml'"),
    ],
)
def test_what_is_missing_is_told_before_anything_begins(talk: Place, words: tuple[str, ...], told: str) -> None:
    """With what is wanted; nobody is asked, and there is no run."""
    assert told in talk.look("run", *words, status=2).err
    assert not (talk.folder / ".coterie" / "runs").exists()


def test_an_input_of_the_wrong_form_is_told_with_how_to_write_it(talk: Place) -> None:
    """A list is JSON on the command line."""
    (talk.folder / "hand.pattern.yaml").write_text("pattern: {type: delegation, slots: {a: {command: [cat]}}}")
    for name in ("tasks", "required_capabilities"):
        told = talk.look("run", "hand.pattern.yaml", "x", "--input", f"{name}=y", status=2).err
        assert f"`{name}` must be a list of texts" in told
        assert f"; --input '{name}:=[" in told


def test_a_setting_is_given_where_a_pattern_is_run_checked_or_simulated(talk: Place) -> None:
    """The run obeys it, and says when it does not fit, before anything begins."""
    question = ("--input", "question=why", "--set", "max_rounds=2", "--set", "allow_early_termination=false")
    talk.look("run", "talk.pattern.yaml", *question)
    checked = talk.look("topology", "check", "talk.pattern.yaml", "--set", "max_rounds=3").out
    crashed = talk.look("simulate", "talk.pattern.yaml", "--set", "max_rounds=2", "--seeds", "2", "--jobs", "1")
    refused = talk.look("run", "talk.pattern.yaml", *question, "--set", "max_rouns=2", status=1)

    assert [turn for turn in prompts(talk) if turn.startswith("proponent")] == ["proponent#1", "proponent#2"]
    assert "proponent 3" in checked
    assert "2 of 2 schedules" in crashed.err
    assert refused.err == (
        "talk.pattern.yaml: error[unknown-param]: 'max_rouns' cannot be set: unknown setting 'max_rouns'\n"
        "  did you mean 'max_rounds'?\n"
    )


def test_a_pattern_of_ones_own_is_found_beside_its_file(talk: Place) -> None:
    """And again when it is resumed from elsewhere; `validate` does not load it."""
    assert "custom pattern" in talk.look("topology", "validate", "own.pattern.yaml").err
    talk.call("run", "own.pattern.yaml", "rest", "--max-turns", "1", status=3)
    assert "completed: 2 turns" in talk.call("resume", "last", "--max-turns", "none").err
    assert prompts(talk) == {
        "doctor#1": "Please say: rest",
        "colleague#1": "doctor has spoken? Do you agree?",
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("  slots:", "  config: {rude: true}\n  slots:"), "unknown setting 'rude'"),
        (("own_medicine:second_opinion", "own_medicine:third"), "cannot be loaded"),
        (("own_medicine:second_opinion", "nowhere_at_all:play"), "cannot be loaded"),
        (("own_medicine:second_opinion", "own_medicine:Question"), "is not a pattern"),
    ],
)
def test_what_is_wrong_with_ones_own_is_told_before_anything_begins(
    talk: Place, change: tuple[str, str], told: str
) -> None:
    """In its own words."""
    (talk.folder / "own.pattern.yaml").write_text(OWN_TEAM.replace(*change))

    assert told in talk.look("run", "own.pattern.yaml", "rest", status=2).err


def test_a_flow_goes_on_by_what_a_pattern_gives_back(talk: Place) -> None:
    """Its outputs are those of the node."""
    (talk.folder / "release.at").write_text(FLOW)
    for verdict, follows in (("true", "good#1"), ("false", "bad#1")):
        (talk.folder / "panel.pattern.yaml").write_text(PANEL % (verdict, verdict))
        (talk.folder / "prompts.log").unlink(missing_ok=True)
        talk.look("run", "release.at", "Is it so?")
        assert list(prompts(talk)) == [follows]


def test_a_pattern_is_shown_drawn_checked_and_compared(talk: Place) -> None:
    """By its slots."""
    shown = talk.look("topology", "show", "talk.pattern.yaml").out
    assert "talk [debate]\n  Two sides and a judge\n  max_rounds: 1\n" in shown
    assert "├─ opponent (agent, sh '{here}/say.sh')\n│    can doubt, at most 2 turns\n│    -> mediator\n" in shown
    drawn = talk.look("topology", "graph", "talk.pattern.yaml").out
    assert drawn.count("-->") == 2
    counted = talk.look("topology", "check", "talk.pattern.yaml", "--price", "0.1").out
    assert "at most 3 turns (proponent 1, opponent 1, mediator 1)" in counted
    assert "at most $0.30" in counted

    (talk.folder / "new.pattern.yaml").write_text(
        TALK.replace("max_rounds: 1", "max_rounds: 3")
        .replace("ada", "bob")
        .replace("type: debate", "type: debate\n  name: talk")
    )
    changes = talk.look("topology", "diff", "talk.pattern.yaml", "new.pattern.yaml", status=1).out
    assert changes.splitlines() == ["~ agent ada is now called bob", "~ pattern", "    config.max_rounds: 1 → 3"]

    (talk.folder / "less.pattern.yaml").write_text(TALK.replace("    proponent: ada\n", ""))
    assert (
        "    - slots.proponent: ada\n"
        in talk.look("topology", "diff", "talk.pattern.yaml", "less.pattern.yaml", status=1).out
    )


def test_a_pattern_file_is_not_laid_out(talk: Place) -> None:
    """It is left as it is, and that is said."""
    before = (talk.folder / "talk.pattern.yaml").read_text()
    assert "prettier --write talk.pattern.yaml" in talk.look("topology", "fmt", "talk.pattern.yaml", status=1).err

    assert (talk.folder / "talk.pattern.yaml").read_text() == before


def test_a_human_mediates_through_the_inbox(talk: Place) -> None:
    """The run waits, and goes on with the answer."""
    (talk.folder / "talk.pattern.yaml").write_text(
        TALK.replace("{command: [sh, say.sh]}\nagents", "{type: human}\nagents")
    )
    talk.call("run", "talk.pattern.yaml", "why", status=4)
    talk.look("control", "respond", "last", "CONCLUSION: It will.")

    assert "It will." in talk.call("resume", "last").out


def test_reading_a_flow_loads_nothing_of_patterns(place: Place) -> None:
    """Neither YAML nor the kinds: most files are flows."""
    import subprocess
    import sys

    program = (
        "import sys\nfrom pathlib import Path\nfrom coterie.interfaces.cli.team_file import examine\n"
        "examine(Path('loop.at'))\n"
        "heavy = 'yaml', 'coterie.team.formats.yaml', 'coterie.team.planning.patterns'\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(place.folder), capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_the_schema_is_printed_for_editors(talk: Place) -> None:
    """As JSON."""
    assert json.loads(talk.look("topology", "schema").out)["then"]["required"] == ["pattern"]
