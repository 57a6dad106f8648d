"""The 105 inputs that the published text accepts or rejects."""

import json
from pathlib import Path

from bundles import bundle

from coterie.team.formats import read

CASES = Path(__file__).parents[2] / "data" / "cases-flow"
EXPECTATIONS = json.loads((CASES / "expectations.json").read_text())

DECIDED = {
    "052-when-nonexhaustive": ("accept", "a value that no condition covers is a warning: the path may end there"),
    "060-loop-unbounded": ("accept", "a conditional way back without a bound is a warning"),
    "082-per-ticket": ("reject", "there are no tickets: a scope is run, phase, or an agent"),
    "118-fanout-one-element": ("accept", "a list of one is a list"),
    "134-orphan-agent": ("accept", "an agent outside the flow is a warning"),
    "141-keyword-agent-search": ("accept", "words have their meaning only where they are expected"),
    "142-uppercase-agent": ("accept", "names may have capital letters"),
    "143-underscore-agent": ("accept", "names may have underscores"),
    "166-unknown-field": ("accept", "an unknown field is a warning, and kept"),
    "096-race-not-fanout": ("reject", "it needs a list of agents"),
    "131-join-bad": ("reject", "there is no such join"),
    "157-two-flow-blocks": ("reject", "a topology has one flow"),
    "162-header-no-patterns": ("reject", "the header lists its patterns"),
    "171-two-topologies": ("reject", "a file holds one topology"),
    # On these the text is silent; the rules of the flow notation decide.
    "008-empty-flow-no-agents": ("accept", "nothing to run is nothing wrong"),
    "013-ws-arrow-at-line-end": ("accept", "a statement may span lines"),
    "014-ws-arrow-at-line-start": ("accept", "a statement may span lines"),
    "016-ws-multiline-fanout": ("accept", "a list may span lines"),
    "017-two-statements-one-line": ("accept", "a statement ends where the next token cannot continue it"),
    "034-when-single-quoted": ("reject", "write strings in double quotes"),
    "050-when-output-and-value-in-quotes-with-comma": ("reject", "the value is no member of the declared enum"),
    "063-loop-max-zero": ("reject", "max is a whole number from 1"),
    "065-loop-max-decimal": ("reject", "max is a whole number from 1"),
    "069-max-on-forward-edge": ("accept", "max bounds any arrow"),
    "073-cycle-max-on-forward-part": ("accept", "a max arrow anywhere on a cycle bounds it"),
    "083-per-unknown": ("reject", "a scope is run, phase, or an agent"),
    "091-attr-trailing-comma": ("accept", "commas in lists may trail"),
    "110-name-ending-x": ("accept", "'box-x->' is box and an error arrow"),
    "114-fanout-to-fanout": ("accept", "list to list means all pairs"),
    "115-fanin-entry": ("accept", "a list may stand on either side"),
    "117-fanout-implicit-no-pattern": ("reject", "several forward arrows without 'when' are a fan-out"),
    "121-fanout-trailing-comma": ("accept", "commas in lists may trail"),
    "137-unreachable-cycle": ("accept", "two unconnected parts are a warning"),
    "140-keyword-agent-plan": ("accept", "words have their meaning only where they are expected"),
    "182-action-no-orchestrator": ("accept", "an action needs no orchestrator"),
}
"""What coterie decides where the published text says otherwise, or nothing; and why."""


@bundle("case", EXPECTATIONS, ids=lambda case: case["id"])
def test_a_published_case_is_accepted_or_rejected(case: dict[str, str]) -> None:
    """A case is rejected when, and only when, it has an error; the rest are warnings and notes."""
    verdict, _ = DECIDED.get(case["id"], (case["spec"], ""))
    source = read(CASES / "at" / f"{case['id']}.at")

    errors = [f"{each.code}: {each.message}" for each in source.diagnostics if each.is_error]
    assert ("reject" if errors else "accept") == verdict, errors


def test_every_case_is_decided() -> None:
    """No case is left open, and no decision is about a case that is not there."""
    ids = {case["id"] for case in EXPECTATIONS}
    assert DECIDED.keys() <= ids
    assert {case["id"] for case in EXPECTATIONS if case["spec"] == "unspecified"} <= DECIDED.keys()


def test_a_rejected_case_has_one_error() -> None:
    """One fault is one diagnostic: no case, each of which has one fault, is told of two errors."""
    several = {"093-attr-uppercase"}  # two words in capitals: two faults
    counts = {
        case["id"]: sum(each.is_error for each in read(CASES / "at" / f"{case['id']}.at").diagnostics)
        for case in EXPECTATIONS
    }
    assert {name for name, count in counts.items() if count > 1} == several
