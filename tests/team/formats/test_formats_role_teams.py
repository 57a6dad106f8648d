"""Roles that a team answers for, as `topology.toml` has them."""

from pathlib import Path

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loops import folder

from coterie.team.formats import Source, read
from coterie.team.topology.conditions import Condition, Operator, comparison

ROLE = '[[role]]\nid = "jury"\nemits = ["a.passed", "b.failed"]\ntopology = "jury.at"\n'


def told(path: Path, text: str) -> Source:
    return read(folder(path / "loop", {"topology.toml": text}))


def codes(source: Source) -> list[str]:
    return [each.code for each in source.diagnostics]


@pytest.mark.parametrize(
    "written",
    [
        'events = {"a.passed" = "ok == true", "b.failed" = ""}',
        'events."a.passed" = "ok == true"\nevents."b.failed" = ""',
        '[role.events]\n"a.passed" = "ok == true"\n"b.failed" = ""',
    ],
)
def test_events_are_read_in_their_order_however_the_table_is_written(tmp_path: Path, written: str) -> None:
    source = told(tmp_path, ROLE + written)
    assert source.topology is not None
    assert source.topology.loop is not None
    [role] = source.topology.loop.roles

    assert codes(source) == []
    assert role.topology == "jury.at"
    assert list(role.events.items()) == [("a.passed", "ok == true"), ("b.failed", "")]
    assert role.spans["events.b.failed"].line >= 5


@bundle(
    ("written", "code", "line"),
    [
        ('events = ["a.passed"]', "bad-value", 5),
        ('events = {"a.passed" = true}', "bad-value", 5),
        ('[role.events]\n"a.passed" = "ok"\n"b.failed" = ""', "bad-condition", 6),
        ('[role.events]\n"a.passed" = "x > many"\n"b.failed" = ""', "not-a-number", 6),
        ('events = {"b.failed" = ""}\nbackend_kind = "human"', "two-thinkers", 6),
        ('events = {"b.failed" = ""}\nbackend_timeout_ms = 5', "two-thinkers", 6),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(tmp_path: Path, written: str, code: str, line: int) -> None:
    found = told(tmp_path, ROLE + written).diagnostics
    [one] = [each for each in found if each.code == code]

    assert one.span is not None
    assert (one.is_error, one.span.line) == (True, line)


def test_no_event_behind_one_that_always_holds_is_selected(tmp_path: Path) -> None:
    """Neither the next one nor a later one."""
    role = ROLE.replace('"b.failed"]', '"b.failed", "c.late"]')
    found = told(tmp_path, f'{role}[role.events]\n"a.passed" = ""\n"b.failed" = "ok == true"\n"c.late" = ""\n')

    assert [(each.code, each.span and each.span.line) for each in found.diagnostics] == [
        ("idle-events", 7),
        ("idle-events", 8),
    ]


@bundle(
    ("text", "field", "op", "value"),
    [
        ("ok == true", "ok", Operator.EQ, True),
        ("  winner != 'the opponent' ", "winner", Operator.NE, "the opponent"),
        ('verdict=="revise"', "verdict", Operator.EQ, "revise"),
        ("verdict == revise", "verdict", Operator.EQ, "revise"),
        ("rounds >= 2", "rounds", Operator.GE, 2),
        ("margin < 0.25", "margin", Operator.LT, 0.25),
        ("delta > -1", "delta", Operator.GT, -1),
    ],
)
def test_a_comparison_is_read(text: str, field: str, op: Operator, value: object) -> None:
    assert comparison("jury", text) == Condition("jury", field, op, value)  # type: ignore[arg-type]


@bundle(
    "text", ["", "ok", "ok ==", "== true", "ok = true", "ok == true and x == 1", "a.b == 1", "ok == null", "ok == [1]"]
)
def test_what_is_no_comparison_is_none(text: str) -> None:
    assert comparison("jury", text) is None


@given(
    st.sampled_from(["ok", "final_approved", "a1", "with-dash"]),
    st.sampled_from(Operator),
    st.one_of(st.text(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_a_comparison_is_written_as_it_is_read(field: str, op: Operator, value: str | int | float | bool) -> None:
    condition = Condition("jury", field, op, value)

    assert comparison("jury", condition.comparison) == condition
