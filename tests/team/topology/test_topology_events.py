"""Routing: which roles an event leads to, and what these may emit."""

import tomllib
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_cases import cases

from coterie.team.topology.events import allowed, is_pattern, matches, matches_any, suggested

pytestmark = pytest.mark.once

DROPPED = "Undeclared targets are dropped; nothing left: all roles (spec, Routing)."

OTHERWISE = {
    "routing-019": DROPPED,
    "routing-035": DROPPED,
    "routing-036": "Duplicate ids are errors (spec, Routing).",
}
"""Cases that are not followed, by id, with the sentence that decides."""


def table(text: str) -> tuple[list[tuple[str, list[str]]], dict[str, list[str]]]:
    """The handoff map and the emits of a `topology.toml`."""
    read = tomllib.loads(text)
    emits: dict[str, list[str]] = {}
    for role in read.get("role", []):
        if isinstance(role.get("id"), str):
            emits.setdefault(role["id"], []).extend(role.get("emits") or [])
    handoff = [
        (key, [value] if isinstance(value, str) else [str(one) for one in value])
        for key, value in read.get("handoff", {}).items()
    ]
    return handoff, emits


@bundle("case", [pytest.param(c, id=c["id"]) for c in cases("routing") if c["id"] not in OTHERWISE])
def test_routing(case: dict[str, Any]) -> None:
    """The roles in the order of the handoff map, what they may emit in the order of the roles."""
    handoff, emits = table(case["topology"])
    roles = suggested(handoff, list(emits), case["event"])

    assert list(roles) == case["suggested_roles"]
    assert list(allowed(emits, roles)) == case["allowed_events"]


@pytest.mark.parametrize("event", ["x.done", "f"])
def test_roles_that_are_not_there_do_not_count(event: str) -> None:
    """And when nothing is left, all roles do."""
    handoff = [("x.done", ["a", "ghost"]), ("f", ["nobody"])]

    assert suggested(handoff, ["a", "b"], event) == (("a",) if event == "x.done" else ("a", "b"))


def test_patterns() -> None:
    """A pattern must match all of an event; one that cannot be read matches nothing."""
    assert matches("/x\\..*/", "x.done")
    assert not matches("/x/", "x.done")
    assert not matches("/a|b/", "ab")
    assert not matches("/(/", "(")
    assert matches("/(/", "/(/") is False
    assert matches_any(["a", "/b.*/"], "bc")
    assert not is_pattern("//")
    assert matches("//", "//")


NAMES = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.sampled_from(["e", "f", "/e|g/"]), st.lists(NAMES))), st.lists(NAMES, unique=True))
def test_somebody_is_always_suggested(handoff: list[tuple[str, list[str]]], roles: list[str]) -> None:
    """As long as there are roles, and each of them once."""
    for event in ("e", "f", "g", "h"):
        found = suggested(handoff, roles, event)
        assert set(found) <= set(roles)
        assert bool(found) == bool(roles)
        assert len(set(found)) == len(found)
