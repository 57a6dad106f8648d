"""Tasks given to those who can do them: who gets what, and what becomes of what nobody gets."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from bundles import bundle
from parts import parts
from pattern_chance import chance, same_at_any_pace
from pattern_play import Performance, Refused, cost, failed, pattern, perform, scripted, text

from coterie.agents.backends.base import Request, Result
from coterie.base.diagnostics import Severity
from coterie.history.journal.records import MessageSent
from coterie.team.planning.plan import Plan
from coterie.team.topology.patterns.kinds import KINDS, faults

HANDS = ("code", "research", "general")
TASKS = {"tasks": ["T1", "T2", "T3", "T4"]}


def given_to(done: Performance) -> list[tuple[str, str]]:
    """Who had which task."""
    return [(one["task"], one["slot"]) for one in done.output["tasks"]]


def able(**config: Any) -> Plan:
    """`code` and `general` know Python, `general` knows SQL as well."""
    return pattern("delegation", HANDS, capabilities={"code": ["python"], "general": ["sql", "python"]}, **config)


def routed(**config: Any) -> Plan:
    """A coordinator says who."""
    return pattern("delegation", ("coordinator", *HANDS), routing_strategy="coordinator", **config)


def to(slot: str) -> str:
    """What a coordinator says."""
    return json.dumps({"route_to": slot})


def test_a_task_goes_to_whoever_can_do_all_that_it_requires() -> None:
    """What is required must be among what a slot declares."""
    done = perform(able(), {"task": "T", "required_capabilities": ["python", "sql"]}, {"general": ["DONE"]})

    [task] = done.output["tasks"]
    assert task == {"task": "T", "slot": "general", "output": "DONE", "reason": "it has python, sql"}
    assert (done.output["unrouted"], done.output["final_output"], done.text) == ([], "DONE", "DONE")


@bundle(
    ("given", "words"),
    [
        ({"tasks": []}, "needs an input `task` or `tasks`"),
        ({"tasks": [], "task": " "}, "needs an input `task` or `tasks`"),
        ({"tasks": ["T", " "]}, "one of `tasks` is empty"),
        ({"tasks": "T"}, "`tasks` must be a list of texts"),
        ({"tasks": ["T", 5]}, "`tasks` must be a list of texts"),
        ({"tasks": [{"task": "T", "capabilities": []}]}, "`tasks` must be a list of texts, or of {task, required"),
        ({"tasks": [{"task": "T", "required_capabilities": "sql"}]}, "`tasks` must be a list of texts"),
        ({"task": {"task": "T", "required_capabilities": ["cobol"]}}, "no agent has the capabilities cobol"),
        ({"task": "T", "required_capabilities": "sql"}, "`required_capabilities` must be a list of texts"),
    ],
)
def test_without_tasks_nobody_is_asked(given: dict[str, Any], words: str) -> None:
    """Nor with one that says nothing."""
    done = perform(able(), given, {})

    assert (done.ended.status, done.asked) == ("failed", [])
    assert words in done.ended.reason


def test_a_task_that_is_no_text_is_told_as_json() -> None:
    """A program may give one."""
    [task] = perform(able(), {"task": {"file": "a.py", "line": None}}, {}).output["tasks"]

    assert task["task"] == '{"file": "a.py", "line": null}'


def test_those_who_are_equally_able_are_used_in_turn() -> None:
    """The one with the fewest tasks gets the next; of several the first."""
    assert given_to(perform(able(), TASKS, {})) == [
        ("T1", "code"),
        ("T2", "research"),
        ("T3", "general"),
        ("T4", "code"),
    ]
    only = TASKS | {"required_capabilities": ["python"]}
    assert [slot for _, slot in given_to(perform(able(), only, {}))] == ["code", "general", "code", "general"]


def test_without_load_balance_the_first_who_can_gets_everything() -> None:
    """`load_balance` off."""
    assert {slot for _, slot in given_to(perform(able(load_balance=False), TASKS, {}))} == {"code"}


def test_a_task_and_tasks_are_all_done() -> None:
    """`task` first."""
    assert [task for task, _ in given_to(perform(able(), {"task": "T0", "tasks": ["T1"]}, {}))] == ["T0", "T1"]


def test_a_task_may_require_its_own_capabilities() -> None:
    """Besides those that all require; a task that no slot can do is unrouted, the others are done."""
    given = {
        "task": {"task": "T0", "required_capabilities": ["sql"]},
        "tasks": ["T1", {"task": "T2", "required_capabilities": ["cobol"]}],
        "required_capabilities": ["python"],
    }
    done = perform(able(), given, {})

    assert given_to(done) == [("T0", "general"), ("T1", "code")]
    assert done.output["unrouted"] == [{"task": "T2", "reason": "no slot has the capabilities python, cobol"}]


def test_a_refused_task_is_not_done() -> None:
    """`BLOCKED` is the worker's way to say so, and its prompt names it."""
    done = perform(able(), {"tasks": ["T1", "T2"]}, {"code": ["BLOCKED: no key"]})

    assert done.output["tasks"][0]["error"] == "BLOCKED: no key"
    assert done.output["failures"] == [{"slot": "code", "kind": "blocked", "reason": "BLOCKED: no key"}]
    assert "Not done:\n- T1: BLOCKED: no key" in done.text
    assert "`BLOCKED:`" in done.prompts("code")[0]


def test_a_coordinator_that_fails_is_a_failure() -> None:
    """Whether or not a fallback does the task; so is one that names no slot."""
    script = {"coordinator": [failed("down"), "no idea"]}
    done = perform(routed(max_concurrency=1, fallback_agent_name="code"), {"tasks": ["T1", "T2"]}, script)

    assert [(one["slot"], one["kind"]) for one in done.output["failures"]] == [
        ("coordinator", "failed"),
        ("coordinator", "invalid_output"),
    ]
    assert done.output["failures"][0]["reason"] == "T1: down"


def test_a_coordinator_that_is_never_called_is_a_warning() -> None:
    """In the result, and before the run."""
    plan = pattern("delegation", ("coordinator", "code"))
    message = "the coordinator was not called: routing_strategy is capability_match"

    assert perform(plan, {"task": "T"}, {}).output["warnings"] == [message]
    [fault] = faults(KINDS["delegation"], {}, ("coordinator", "code"))
    assert (fault.code, fault.severity) == ("spare-slot", Severity.WARNING)


def test_in_turn_nobody_looks_at_what_is_required_and_it_is_said() -> None:
    """`round_robin` takes the next, whoever that is."""
    done = perform(able(routing_strategy="round_robin"), TASKS | {"required_capabilities": ["sql"]}, {})

    assert [slot for _, slot in given_to(done)] == ["code", "research", "general", "code"]
    assert len(done.output["warnings"]) == 1


def test_the_fallback_gets_what_nobody_can_do() -> None:
    """And the result says why."""
    done = perform(able(fallback_agent_name="research"), {"task": "T", "required_capabilities": ["cobol"]}, {})

    [task] = done.output["tasks"]
    assert (task["slot"], task["reason"]) == ("research", "it is the fallback: no slot has the capabilities cobol")


def test_nobody_is_asked_when_nobody_can() -> None:
    """Without a fallback that is an error, before any call."""
    done = perform(able(), {"task": "T", "required_capabilities": ["cobol"]}, {})

    assert (done.ended.status, done.asked) == ("failed", [])
    assert "cobol" in done.ended.reason


def test_a_coordinator_says_who() -> None:
    """It sees the task, what is required, and who can do what; each task is a question of its own."""
    done = perform(routed(), {"tasks": ["T1", "T2"]}, {"coordinator": [to("general"), to("code")]})

    assert given_to(done) == [("T1", "general"), ("T2", "code")]
    assert [asked["reason"] for asked in done.output["tasks"]] == ["the coordinator chose it"] * 2
    assert all("T1" in prompt or "T2" in prompt for prompt in done.prompts("coordinator"))
    told = [(one.sender, one.recipient, one.type) for one in done.records(MessageSent)]
    assert told == [
        ("coordinator", "general", "request"),
        ("coordinator", "code", "request"),
        ("general", "coordinator", "response"),
        ("code", "coordinator", "response"),
    ]


def test_a_coordinator_is_told_what_is_required_and_what_each_can_do() -> None:
    """It decides by itself whom to trust with it."""
    plan = pattern(
        "delegation",
        ("coordinator", "code"),
        capabilities={"code": ["python"]},
        routing_strategy="coordinator",
    )
    done = perform(plan, {"task": "T", "required_capabilities": ["cobol"]}, {"coordinator": [to("code")]})

    [prompt] = done.prompts("coordinator")
    assert "It requires: cobol" in prompt
    assert "- code: python" in prompt


@pytest.mark.parametrize(
    ("said", "why", "asked"),
    [
        (to("nobody"), "the coordinator chose 'nobody', an unknown slot", 1),
        ("I would rather not say", "the coordinator chose no slot: `route_to` is to be a text, but is missing", 2),
        (failed("down"), "the coordinator failed: down", 1),
    ],
)
def test_what_a_coordinator_cannot_place_is_reported(said: str | Result, why: str, asked: int) -> None:
    """An unknown name, no name at all after a second question, a failure: the fallback has it, or it is unrouted."""
    script = {"coordinator": [to("code"), said]}
    done = perform(routed(max_concurrency=1), {"tasks": ["T1", "T2"]}, script)
    caught = perform(routed(max_concurrency=1, fallback_agent_name="general"), {"tasks": ["T1", "T2"]}, script)

    assert (given_to(done), done.output["unrouted"]) == ([("T1", "code")], [{"task": "T2", "reason": why}])
    assert done.text == f"[code]: code 1\n\nNot done:\n- T2: {why}"
    assert (caught.output["tasks"][1]["slot"], caught.output["tasks"][1]["reason"]) == (
        "general",
        f"it is the fallback: {why}",
    )
    assert done.counts()["coordinator"] == 1 + asked


def test_the_coordinator_gets_no_tasks() -> None:
    """It routes; the others work."""
    plan = pattern("delegation", ("coordinator", "a", "b"))
    assert {slot for _, slot in given_to(perform(plan, TASKS, {}))} == {"a", "b"}


def test_a_task_that_fails_stands_in_the_result() -> None:
    """The others go on, and the text says what is missing; an empty answer is a failure, too."""
    done = perform(able(), {"tasks": ["T1", "T2", "T3"]}, {"code": [failed("down")], "research": [""]})

    one, two, three = done.output["tasks"]
    assert (one["output"], one["error"], two["error"]) == ("", "down", "an empty answer")
    assert "error" not in three
    assert done.text == "[general]: general 1\n\nNot done:\n- T1: down\n- T2: an empty answer"
    assert [(lost["slot"], lost["reason"]) for lost in done.output["failures"]] == [
        ("code", "down"),
        ("research", "an empty answer"),
    ]


def test_nothing_done_is_no_success() -> None:
    """When every task fails the run does."""
    done = perform(able(), {"tasks": ["T1", "T2"]}, {"code": [failed("down")], "research": [failed("away")]})

    assert (done.ended.status, done.ended.reason) == (
        "failed",
        "Delegation: no task was done:\n- T1: down\n- T2: away",
    )


@pytest.mark.parametrize(("most", "at_once"), [(None, 4), (3, 3), (1, 1)])
def test_tasks_run_at_once_up_to_a_limit(most: int | None, at_once: int) -> None:
    """`max_concurrency` bounds routing and work; results keep their order."""
    done = perform(routed(max_concurrency=most), TASKS, {"coordinator": [to("code")]})

    assert given_to(done) == [(task, "code") for task in TASKS["tasks"]]
    for slot in ("coordinator", "code"):
        began = Counter(call.began for call in done.calls if call.slot == slot)
        assert max(began.values()) == at_once


@bundle("given", [{}, {"task": " "}, {"tasks": []}, {"tasks": "T"}, {"tasks": [1]}])
def test_without_a_task_nobody_is_asked(given: dict[str, Any]) -> None:
    """There must be one, as a text, or several, as a list."""
    done = perform(able(), given, {})

    assert (done.ended.status, done.asked) == ("failed", [])


@bundle(
    ("slots", "config", "words"),
    [
        (["coordinator"], {}, "at least one agent"),
        (["a"], {"routing_strategy": "coordinator"}, "requires 'coordinator' slot"),
        (["a"], {"fallback_agent_name": "b"}, "'b'"),
        (["a", "coordinator"], {"fallback_agent_name": "coordinator"}, "'coordinator'"),
        (["a"], {"routing_strategy": "by_name"}, "routing_strategy"),
        (["a"], {"load_balance": 1}, "load_balance"),
        (["a"], {"max_concurrency": 0}, "max_concurrency"),
        (["a"], {"fallback": "a"}, "fallback"),
    ],
)
def test_what_cannot_be_is_refused(slots: list[str], config: dict[str, Any], words: str) -> None:
    """Missing slots, unknown ones, and values out of range."""
    with pytest.raises(Refused, match=words):
        pattern("delegation", slots, **config)


def _drawn(seed: int) -> tuple[Plan, list[str]]:
    rng = Random(seed)
    hands = [f"h{n}" for n in range(rng.randint(1, 4))]
    strategy = rng.choice(["capability_match", "coordinator", "round_robin"])
    needed = strategy == "coordinator"
    config = {
        "routing_strategy": strategy,
        "load_balance": rng.random() < 0.5,
        "fallback_agent_name": rng.choice([None, hands[0]]),
        "max_concurrency": rng.choice([None, 1, 2]),
    }
    slots = ["coordinator", *hands] if needed or rng.random() < 0.3 else hands
    return pattern("delegation", slots, **config), [f"T{n}" for n in range(rng.randint(1, 6))]


@parts(4)
def test_what_it_costs_is_known(part: int) -> None:
    """Any delegation of so many tasks: as many turns as its formula says, who is asked included; never more."""
    for seed in range(part * 50, (part + 1) * 50):
        plan, tasks = _drawn(seed)
        counted = cost(plan, tasks=len(tasks))
        hands = [slot for slot in plan.agents if slot != "coordinator"]
        balanced = plan.coordination.config["load_balance"]
        script = {"coordinator": [to(hands[n % len(hands)] if balanced else hands[0]) for n in range(len(tasks))]}

        usual = {slot: n for slot, n in counted.usual.items() if n}
        assert Performance(plan, {"tasks": tasks}, scripted(script)).turns() == usual
        for slot, n in Performance(plan, {"tasks": tasks}, chance(seed, _unsure)).turns().items():
            assert n <= counted.most[slot]


def test_it_does_not_matter_who_is_slow() -> None:
    """Same questions, same end."""
    for seed in range(30):
        plan, tasks = _drawn(seed)
        same_at_any_pace(plan, {"tasks": tasks}, seed, _unsure)


def _unsure(rng: Random, request: Request) -> Result:
    if rng.random() < 0.3:
        return failed()
    if request.agent.name == "coordinator":
        return text(rng.choice([to("h0"), to("h1"), "no idea", "{"]))
    return text(rng.choice(["", f"{request.turn} {rng.random()}"]))
