"""`coterie simulate PATTERN --accuracy …`: what the options of a pattern are worth."""

import json
from xml.etree import ElementTree

import pytest
from command_line import Place

CHECK = """
pattern:
  type: crosscheck
  slots:
    primary: {type: scripted}
    checker_0: {type: scripted}
    checker_1: {type: scripted}
"""


@pytest.fixture
def lab(place: Place) -> Place:
    (place.folder / "check.pattern.yaml").write_text(CHECK)
    return place


def test_the_options_of_a_pattern_are_compared(lab: Place) -> None:
    """As a table and a picture; nobody is asked, and nothing is kept."""
    said = lab.look("simulate", "check.pattern.yaml", "--accuracy", "0.7,checker=0.9/0.8", "--runs", "20")

    head, *rows = said.out.splitlines()
    assert head.split() == ["check", "calls", "right", "19", "times", "in", "20", "decided", "right", "then"]
    assert rows[0].split()[:4] == ["a", "*", "primary", "alone"]
    assert any("as written: 0 revisions" in row for row in rows)
    assert "20 questions each, the same for all (seed 0)" in rows
    assert not (lab.folder / ".coterie").exists()


def test_the_same_as_data_and_as_a_drawing(lab: Place) -> None:
    """With everything that was assumed; another seed asks other questions."""
    words = ("simulate", "check.pattern.yaml", "--accuracy", "0.6,primary=0.9", "--runs", "30", "--json")
    assumed = ("--correlation", "0.1", "--habit", "0.2", "--bias", "0.3", "--conformity", "0.4", "--wrong", "3")
    found = json.loads(lab.look(*words, *assumed, "--failures", "0.05", "--svg", "lab.svg").out)

    assert found["assumptions"]["skill"] == {"accuracy": 0.6, "rejects": None}
    assert found["assumptions"]["skills"] == {"primary": {"accuracy": 0.9, "rejects": None}}
    rest = {name: value for name, value in found["assumptions"].items() if not name.startswith("skill")}
    assert rest == {
        "correlation": 0.1,
        "habit": 0.2,
        "bias": 0.3,
        "conformity": 0.4,
        "wrong": 3,
        "failures": 0.05,
        "overconfidence": 0,
    }
    assert (found["pattern"], found["runs"], found["seed"]) == ("check", 30, 0)
    drawn = ElementTree.parse(lab.folder / "lab.svg").getroot()
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == len(found["options"])
    other = json.loads(lab.look(*words, *assumed, "--failures", "0.05", "--seed", "1").out)
    assert other["options"] != found["options"]


def test_what_was_found_is_said_even_if_it_cannot_be_drawn(lab: Place) -> None:
    """The error comes behind it."""
    words = ("--accuracy", "0.7", "--runs", "5", "--svg", "nowhere/lab.svg")
    said = lab.look("simulate", "check.pattern.yaml", *words, status=1)

    assert "as written: 0 revisions" in said.out
    assert "nowhere/lab.svg: No such file or directory" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--accuracy", "checker=0.9"), "has no value for the other slots; write --accuracy 0.7,checker=0.9"),
        (("--accuracy", "good"), "'good' is not an accuracy; write 0.7, slot=0.7 or slot=0.9/0.7"),
        (("--accuracy", "1.7"), "an accuracy is 1.7; it must be from 0 to 1"),
        (("--accuracy", "0.7,checkr=0.9"), "no agent 'checkr'; did you mean 'checker'"),
        (("--accuracy", "nan"), "an accuracy is nan"),
        (("--accuracy", "0.7,0.8"), "sets the accuracy of all slots twice"),
        (("--accuracy", "0.7,checker=0.9, checker =0.2"), "sets the accuracy of checker twice"),
        (("--accuracy", "0.7,=0.5"), "'=0.5' does not name a slot"),
        (("--runs", "5"), "--runs requires --accuracy"),
        (("--correlation", "0.5"), "--correlation requires --accuracy"),
        (
            ("--accuracy", "0.7", "--seeds", "1000"),
            "--seeds applies to crash schedules, not to a comparison with --accuracy",
        ),
        (("--accuracy", "0.7", "--from", "0"), "--from applies to crash schedules"),
        (("--accuracy", "0.7", "--jobs", "1"), "--jobs applies to crash schedules"),
        (("--accuracy", "0.7", "--state-dir", "."), "--state-dir applies to crash schedules"),
    ],
)
def test_what_cannot_be_assumed_is_refused(lab: Place, words: tuple[str, ...], told: str) -> None:
    """Status 2, and what to write."""
    assert told in lab.look("simulate", "check.pattern.yaml", *words, status=2).err


def test_only_patterns_are_compared(lab: Place) -> None:
    """A flow has no answer that is right or wrong."""
    assert "loop is not a pattern" in lab.look("simulate", "loop.at", "--accuracy", "0.7", status=2).err


def test_a_pattern_can_be_crashed_like_any_team(lab: Place) -> None:
    """Without --accuracy it is the simulation of crashes."""
    said = lab.look("simulate", "check.pattern.yaml", "--seeds", "10", "--jobs", "1")

    assert said.out.startswith("survived 10 crash schedules (")
