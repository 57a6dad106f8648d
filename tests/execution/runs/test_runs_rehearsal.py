"""The document of a rehearsal: who ran when, what marked it, what fired."""

import json
from typing import Any

import pytest
from msgspec.structs import replace as with_

from coterie.execution.runs.rehearsal import rehearse
from coterie.team.formats import read_text
from coterie.team.planning import plan_or_raise
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan

HEAD = """
topology t : [pipeline, fan-out] {
  agent a { model: m }
  agent b { model: m }
  agent c { model: m }
  agent d { model: m outputs: { verdict: approve | revise } }
  agent e { model: m outputs: { ok: boolean  n: integer  words: text } }
  flow {
"""


def team(*statements: str) -> Plan:
    source = read_text(HEAD + "\n".join(statements) + "\n}\n}")
    assert source.topology is not None
    assert not source.has_errors, [d.render(source.text) for d in source.diagnostics]
    return plan_or_raise(source.topology)


def played(plan: Plan, script: Any = None, **limits: Any) -> Any:
    document = rehearse(plan, {"prompt": "go"}, script, Limits(max_parallel=None, **limits))
    return json.loads(json.dumps(document))


def starts(document: Any) -> list[tuple[str, int, float, list[str]]]:
    return [(turn["agent"], turn["n"], turn["started"], turn["marked_by"]) for turn in document["turns"]]


def test_the_document_has_what_is_promised() -> None:
    """Every key, for a fan-out with a join."""
    document = played(team("a -> [b, c]", "[b, c] -> d"))

    assert set(document) == {"run", "outcome", "exit", "turns", "never_ran"}
    assert (document["outcome"], document["exit"], document["never_ran"]) == ("completed", 0, [])
    assert document["turns"][0] == {
        "agent": "a",
        "n": 1,
        "started": 0.0,
        "finished": 1.0,
        "marked_by": [],
        "outputs": {},
        "fired": [["a", ["b", "c"]]],
        "exhausted": [],
        "forced": None,
    }
    assert starts(document)[1:] == [("b", 1, 1.0, ["a"]), ("c", 1, 1.0, ["a"]), ("d", 1, 2.0, ["b", "c"])]
    assert document["turns"][3]["outputs"] == {"verdict": "approve"}


def test_turn_n_chooses_the_nth_value() -> None:
    """An enum in its order, the last repeating; boolean true, false; number n; text `<agent> <n>`."""
    document = played(team("a -> e", "e -> e [max 2]"))
    values = [turn["outputs"] for turn in document["turns"] if turn["agent"] == "e"]

    assert values == [
        {"ok": True, "n": 1, "words": "e 1"},
        {"ok": False, "n": 2, "words": "e 2"},
        {"ok": False, "n": 3, "words": "e 3"},
    ]


def test_turns_run_in_parallel_without_limit() -> None:
    """Unlike in a run, where 16 do by default: a rehearsal says what the flow allows."""
    agents = {name: AgentPlan(name=name) for name in (f"a{n}" for n in range(20))}
    plan = Plan(name="wide", agents=agents, coordination=FlowPlan(mentions=tuple(agents), groups=()))

    assert {turn["started"] for turn in rehearse(plan, {"prompt": "go"})["turns"]} == {0.0}


def test_a_spent_loop_is_forced_forward() -> None:
    """The spent group is named, and the one that fired instead; what never ran is listed."""
    plan = team("a -> d", "d -> a [when d.verdict == revise, max 1]", "d -> b [when d.verdict == approve]", "b -> c")
    script = {"d": [{"outputs": {"verdict": "revise"}}], "b": [{"fail": "no"}]}
    document = played(plan, script)
    last = document["turns"][3]

    assert (last["agent"], last["n"], last["fired"]) == ("d", 2, [["d", ["b"]]])
    assert (last["exhausted"], last["forced"]) == ([["d", ["a"]]], ["d", ["b"]])
    assert (document["outcome"], document["exit"], document["never_ran"]) == ("failed", 1, ["c"])


def test_a_path_that_ends_at_a_spent_loop_forces_nothing() -> None:
    """There is no way forward."""
    document = played(team("a -> d", "d -> a [when d.verdict == revise, max 1]"), {"d": [{"text": "verdict: revise"}]})

    assert document["outcome"] == "completed"
    assert (document["turns"][-1]["exhausted"], document["turns"][-1]["forced"]) == ([["d", ["a"]]], None)
    assert document["turns"][-1]["fired"] == []


def test_times_are_whole_nanoseconds() -> None:
    """Ten times a tenth of a second is a second: what ends at one instant is joined at one instant."""
    tenth = [{"text": "x", "seconds": 0.1}]
    document = played(team("a -> [b, c]", "b -> b [max 9]", "[b, c] -> d"), {"b": tenth, "a": [{"seconds": 0.2}]})
    ends = {(turn["agent"], turn["n"]): turn["finished"] for turn in document["turns"]}

    assert ends["b", 10] == 1.2
    assert ends["c", 1] == 1.2
    assert starts(document)[-1] == ("d", 1, 1.2, ["b", "c"])


def test_what_ends_together_counts_in_the_order_it_started() -> None:
    """b was started before c, so its arrows are judged first, whatever the names."""
    document = played(team("c -> [b, a]", "a -> d", "b -> d", "d -> e"))

    assert starts(document) == [
        ("c", 1, 0.0, []),
        ("b", 1, 1.0, ["c"]),
        ("a", 1, 1.0, ["c"]),
        ("d", 1, 2.0, ["a", "b"]),
        ("e", 1, 3.0, ["d"]),
    ]


def test_a_second_attempt_does_not_lose_its_turns_place() -> None:
    """a was started before c, so it counts first although its last attempt began after c."""
    script = {"a": [{"fail": "rate_limited"}, {"text": "fine"}], "c": [{"seconds": 2}]}
    document = played(team("a -> d", "b -> c -> e"), script)

    ends = {turn["agent"]: turn["finished"] for turn in document["turns"]}
    assert ends["a"] == ends["c"] == 3.0
    assert [name for name, *_ in starts(document)] == ["a", "b", "c", "d", "e"]


def test_limits_hold_in_a_rehearsal_too() -> None:
    """`--max-turns` stops it with exit 3; turns that never ran are listed."""
    document = played(team("a -> b -> c"), max_turns=2)
    assert (document["outcome"], document["exit"], document["never_ran"]) == ("stopped", 3, ["c"])


def test_a_failed_attempt_takes_the_next_entry() -> None:
    """A script is the list of an agent's replies, attempt by attempt."""
    document = played(team("a -> b"), {"a": [{"fail": "rate_limited"}, {"text": "fine"}]})
    assert starts(document) == [("a", 1, 0.0, []), ("b", 1, 3.0, ["a"])]


@pytest.mark.parametrize("again", range(3))
def test_a_rehearsal_is_the_same_every_time(again: int) -> None:
    """Nothing in it depends on the machine."""
    plan = team("a -> [b, c, d, e]", "[b, c, d, e] -> a [max 2]")
    assert played(plan) == played(plan)


def test_a_child_run_that_was_called_off_before_it_began_has_no_document() -> None:
    """What asked for it and what ends the run come at one instant."""
    plan = team("a -> d", "c -> b")
    child = with_(plan.agents["d"], kind="topology", child=team("a -> b"))
    document = played(with_(plan, agents=plan.agents | {"d": child}), {"c": [{"fail": "no"}]})

    assert document["outcome"] == "failed"
    assert [(turn["agent"], "child" in turn) for turn in document["turns"]] == [
        ("a", False),
        ("c", False),
        ("d", False),
    ]
