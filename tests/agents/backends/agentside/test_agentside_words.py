"""What the words of an agent mean."""

import pytest

from coterie.agents.backends.agentside.words import Misused, message_of


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["emit", "tasks.ready"], {"kind": "emit", "event": "tasks.ready", "payload": ""}),
        (["emit", "go", "on", "then"], {"kind": "emit", "event": "go", "payload": "on then"}),
        (["emit", "a.parallel", "- x\n- y"], {"kind": "emit", "event": "a.parallel", "payload": "- x\n- y"}),
        (["emit", "go", "--fast is broken"], {"kind": "emit", "event": "go", "payload": "--fast is broken"}),
        (["emit", "--id", "m1", "go"], {"kind": "emit", "event": "go", "payload": "", "id": "m1"}),
        (["emit", "go", "--", "--id"], {"kind": "emit", "event": "go", "payload": "--id"}),
        (["emit", "go", "-5"], {"kind": "emit", "event": "go", "payload": "-5"}),
        (["emit", "go", "--fast=1", "--id", "m1"], {"kind": "emit", "event": "go", "payload": "--fast=1", "id": "m1"}),
        (
            ["emit", "--output", "a=1", "--output=b:=[2]"],
            {"kind": "emit", "event": "", "payload": "", "outputs": {"a": "1", "b": [2]}},
        ),
        (
            ["memory", "add", "learning", "uses", "tabs", "--project"],
            {"kind": "memory", "note": {"do": "add", "type": "learning", "text": "uses tabs", "project": True}},
        ),
        (
            ["memory", "add", "preference", "--category", "Style", "short"],
            {"kind": "memory", "note": {"do": "add", "type": "preference", "text": "short", "category": "Style"}},
        ),
        (
            ["memory", "add", "meta", "port", "80", "80"],
            {"kind": "memory", "note": {"do": "add", "type": "meta", "key": "port", "value": "80 80"}},
        ),
        (["memory", "promote", "mem-1"], {"kind": "memory", "note": {"do": "promote", "target": "mem-1"}}),
        (["memory", "compact"], {"kind": "memory", "note": {"do": "compact"}}),
        (["memory", "prune", "--max-age", "30d"], {"kind": "memory", "note": {"do": "prune", "max_age": "30d"}}),
        (
            ["task", "add", "-p", "high", "--soft", "write", "tests"],
            {"kind": "task", "note": {"do": "add", "text": "write tests", "priority": "high", "soft": True}},
        ),
        (["task", "complete", "task-1"], {"kind": "task", "note": {"do": "complete", "target": "task-1"}}),
        (
            ["task", "update", "task-1", "-p", "low"],
            {"kind": "task", "note": {"do": "update", "target": "task-1", "priority": "low"}},
        ),
    ],
)
def test_a_command_line_becomes_a_message(words: list[str], message: dict[str, object]) -> None:
    """Options stand anywhere; a payload may begin with a dash."""
    assert message_of(words) == message


@pytest.mark.parametrize(
    "words",
    [["emit", "--help"], ["emit", "go", "--run", "r"], ["emit", "go", "--output"], ["task", "list"], ["memory"], []],
)
def test_the_rest_is_left_to_the_command_line(words: list[str]) -> None:
    """Help, runs that are named, lists, and options that nobody knows."""
    assert message_of(words) is None


@pytest.mark.parametrize(
    "words",
    [
        ["emit"],
        ["emit", ""],
        ["emit", "--output", "x"],
        ["emit", "--output", "x:=[", "go"],
        ["memory", "add", "learning"],
        ["memory", "add", "meta", "key"],
        ["memory", "prune"],
        ["memory", "promote"],
        ["task", "complete", "a", "b"],
        ["task", "update", "task-1"],
    ],
)
def test_what_makes_no_sense_is_said_at_once(words: list[str]) -> None:
    """Nothing is sent."""
    with pytest.raises(Misused, match=r"coterie|write name=text|is not JSON"):
        message_of(words)
