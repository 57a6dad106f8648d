"""The pages of the patterns say what is so: their tables, their pictures, their keys, and above all what each costs."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from pattern_chance import chance
from pattern_pages import PAGES, SETTINGS, drawn, example_of, page_of, picture_of, settings
from pattern_play import Performance, cost, failed, pattern, perform
from pattern_play import text as answered

from coterie.agents.backends.base import Request, Result
from coterie.patterns.builtin.chain import by_level
from coterie.patterns.builtin.ensemble import members
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import Plan
from coterie.team.topology.patterns.kinds import COMMON, KINDS, keys_of
from coterie.testing import rehearse

pytestmark = pytest.mark.once

CONFIGURATIONS = 60
"""How many are drawn for each page; the suites of the patterns themselves draw more."""

kinds = pytest.mark.parametrize("kind", PAGES)


def text(kind: str) -> str:
    return page_of(kind).read_text(encoding="utf-8")


def section(kind: str, heading: str) -> str:
    """What stands below *heading* on the page."""
    return text(kind).split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_every_kind_has_a_page() -> None:
    """None is left out."""
    assert list(PAGES) == list(KINDS)


def test_the_page_of_the_settings_is_fresh() -> None:
    """`python docs/generate/pattern_pages.py` writes it anew."""
    assert SETTINGS.read_text(encoding="utf-8") == settings()


@kinds
def test_a_page_leads_to_its_settings(kind: str) -> None:
    """Its link is one that a test of all links follows."""
    assert f"(../reference/patterns.md#{kind})" in section(kind, "Settings")


@kinds
def test_the_picture_of_a_page_is_fresh(kind: str) -> None:
    """It is that of the example, and the page shows it; `python docs/generate/pattern_pages.py` draws it anew."""
    assert picture_of(kind).read_text(encoding="utf-8") == drawn(kind)
    assert f"](../pictures/{picture_of(kind).name})" in text(kind)
    assert example_of(kind).name in text(kind)


@kinds
def test_a_page_tells_of_every_key_that_comes_back(kind: str) -> None:
    """And of none that does not."""
    rows = re.findall(r"^\| (`.+?) \| ", section(kind, "What it gives back"), re.MULTILINE)
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row)}

    assert told == set(keys_of(kind)) - set(COMMON)


# What it costs


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A pattern to count.

    Attributes:
        counts: What the formula is told beside the settings.
        numbers: What `calls` is told that only a run knows.
        script: What the stand-ins answer, where that matters.
        early: It may end early.
    """

    plan: Plan
    given: dict[str, Any]
    counts: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    script: Mapping[str, Any] = field(default_factory=dict)
    early: bool = False


WORDS = {"len": len, "max": max, "min": min, "range": range, "sum": sum, "zip": zip}


def formula(kind: str, known: dict[str, Any]) -> dict[str, Any]:
    """What the page's formula comes to."""
    [lines] = re.findall(r"^```formula\n(.*?)^```$", text(kind), re.MULTILINE | re.DOTALL)
    names = dict(known)
    for line in lines.splitlines():
        name, _, expression = line.partition(" = ")
        names[name] = eval(expression, {"__builtins__": WORDS, **names})
    return names


def draw_debate(rng: Random) -> Drawn:
    rounds = rng.randint(1, 6)
    early = rng.random() < 0.5
    config = {
        "max_rounds": rounds,
        "min_rounds": rng.randint(1, rounds),
        "consensus_method": rng.choice(["majority", "unanimous", "weighted", "mediator", "first_agree"]),
        "swap_verdict": rng.random() < 0.5,
        "allow_early_termination": early,
    }
    plan = pattern("debate", ["proponent", "opponent", "mediator"], **config)
    agrees = {"opponent": [{"text": "Well.\nagreement: 1"}]} if early else {}
    return Drawn(plan=plan, given={"question": "Q"}, script=agrees, early=early)


def draw_chain(rng: Random) -> Drawn:
    levels = ["a", "b", "c"][: rng.randint(2, 3)]
    slots = ["a", *(f"{level}_{n}" for level in levels[1:] for n in range(rng.randint(0, 3)))]
    if len(slots) == 1:
        slots.append(levels[-1])
    config = {
        "authority_levels": levels,
        "max_delegation_depth": rng.randint(1, 3),
        "max_subtasks": rng.randint(1, 4),
    }
    plan = pattern("chain", slots, **config)
    ranks = [len(found) for found in list(by_level(levels, slots).values())[1:] if found]
    ranks = ranks[: config["max_delegation_depth"]]
    parts = rng.randint(1, 5)
    counted = min(parts, config["max_subtasks"])
    subtasks = [counted**depth for depth in range(1, len(ranks) + 1)]
    split = {"text": json.dumps({"subtasks": [f"S{n}" for n in range(parts)]})}
    return Drawn(
        plan=plan,
        given={"task": "T"},
        counts={"levels": ranks, "subtasks": subtasks},
        numbers={"subtasks": subtasks},
        script={slot: [split] for slot in slots},
    )


def draw_delegation(rng: Random) -> Drawn:
    tasks, workers = rng.randint(1, 6), [f"w{n}" for n in range(rng.randint(1, 4))]
    strategy = rng.choice(["capability_match", "coordinator", "round_robin"])
    config = {"routing_strategy": strategy, "load_balance": rng.random() < 0.5}
    plan = pattern("delegation", [*workers, *(["coordinator"] if strategy == "coordinator" else [])], **config)
    given = {"tasks": [f"T{n}" for n in range(tasks)]}
    counts = {"tasks": tasks, "workers": len(workers)}
    return Drawn(plan=plan, given=given, counts=counts, numbers={"tasks": tasks})


def draw_ensemble(rng: Random) -> Drawn:
    method = rng.choice(["vote", "weighted", "concat", "best_of", "synthesis"])
    early = method in ("vote", "weighted") and rng.random() < 0.5
    config = {
        "aggregation_method": method,
        "samples": rng.randint(1, 3),
        "layers": rng.randint(1, 3),
        "stop_when_decided": early,
        "max_concurrency": rng.choice([None, 1, 2]),
    }
    slots = [f"ensemble_{n}" for n in range(rng.randint(1, 5))] + ["aggregator"] * rng.randint(0, 1)
    plan = pattern("ensemble", slots, **config)
    counts = {"members": len(members(slots)), "aggregator": "aggregator" in slots}
    return Drawn(plan=plan, given={"prompt": "P"}, counts=counts, early=early)


def draw_pipeline(rng: Random) -> Drawn:
    slots = [f"s{n}" for n in range(rng.randint(1, 6))]
    config = {
        "stages": rng.sample(slots, rng.randint(1, len(slots))),
        "retry_failed_stages": rng.random() < 0.7,
        "max_stage_retries": rng.randint(0, 3),
    }
    plan = pattern("pipeline", slots, **config)
    return Drawn(plan=plan, given={"notes": "N"}, counts={"stages": len(config["stages"])})


def draw_crosscheck(rng: Random) -> Drawn:
    early = rng.random() < 0.5
    config: dict[str, Any] = {
        "consensus_method": rng.choice(["majority", "unanimous", "weighted", "mediator", "first_agree"]),
        "num_checkers": rng.randint(2, 6),
        "max_revisions": rng.randint(0, 3),
        "stop_when_decided": early,
    }
    several = rng.randint(1, 5)
    slots = ["primary", *(["checker"] if several == 1 else [f"checker_{n}" for n in range(several)])]
    slots += ["mediator"] if config["consensus_method"] == "mediator" else []
    plan = pattern("crosscheck", slots, **config)
    counts = {"checkers": config["num_checkers"] if several == 1 else several}
    approves = {
        slot: [{"text": '{"approved": true}'}] for slot in slots if slot == "checker"
    }  # a stand-in would approve in its first turn alone
    return Drawn(plan=plan, given={"prompt": "P"}, counts=counts, script=approves, early=early)


def draw_compound(rng: Random) -> Drawn:
    slots = [f"t{n}" for n in range(rng.randint(1, 5))]
    config = {"composition_type": rng.choice(["sequential", "parallel", "conditional"])}
    return Drawn(plan=pattern("compound", slots, **config), given={"prompt": "P"}, counts={"teams": len(slots)})


DRAW: dict[str, Callable[[Random], Drawn]] = {
    "debate": draw_debate,
    "chain": draw_chain,
    "delegation": draw_delegation,
    "ensemble": draw_ensemble,
    "pipeline": draw_pipeline,
    "crosscheck": draw_crosscheck,
    "compound": draw_compound,
}


@pytest.mark.parametrize("seed", range(0, CONFIGURATIONS, 20))
@kinds
def test_the_formula_of_a_page_is_what_is_asked(kind: str, seed: int) -> None:
    """It comes to what `calls` says and to the turns of a rehearsal; less only where the pattern may end early."""
    for n in range(seed, seed + 20):
        one = DRAW[kind](Random(f"{kind} {n}"))
        said = formula(kind, {**config_of(one.plan), **one.counts})
        asked = len(rehearse(one.plan, one.given, one.script)["turns"])

        assert said["usual"] == sum(cost(one.plan, **one.numbers).usual.values())
        assert asked <= said["usual"] if one.early else asked == said["usual"]


@kinds
def test_no_run_takes_more_than_the_most_of_a_page(kind: str) -> None:
    """Whatever fails, is of no use, or goes back: the formula's `most` is that of `calls`, and a bound."""
    for n in range(CONFIGURATIONS):
        one = DRAW[kind](Random(f"{kind} {n}"))
        most = formula(kind, {**config_of(one.plan), **one.counts})["most"]
        numbers = {"tasks": one.numbers["tasks"]} if kind == "delegation" else {}
        turns = Performance(one.plan, one.given, chance(n, moody)).turns()

        assert most == sum(cost(one.plan, **numbers).most.values())
        assert sum(turns.values()) <= most


def test_without_a_run_a_chain_has_a_subtask_for_each_slot() -> None:
    """That is what `topology check` counts, and what its page says."""
    for n in range(CONFIGURATIONS):
        one = draw_chain(Random(f"chain {n}"))
        config = config_of(one.plan)
        each = [min(slots, config["max_subtasks"]) for slots in one.counts["levels"]]

        assert formula("chain", {**config, **one.counts, "subtasks": each})["usual"] == sum(
            cost(one.plan).usual.values()
        )


def test_stages_are_tried_as_often_as_the_formula_says() -> None:
    """When each fails until its last attempt."""
    for n in range(CONFIGURATIONS):
        one = draw_pipeline(Random(f"pipeline {n}"))
        config = config_of(one.plan)
        tries = 1 + config["max_stage_retries"] if config["retry_failed_stages"] else 1
        script = {stage: [*[failed()] * (tries - 1), "done"] for stage in config["stages"]}
        done = perform(one.plan, one.given, script)

        assert done.ended.status == "completed"
        assert len(done.asked) == formula("pipeline", {**config, **one.counts})["attempts"]


def config_of(plan: Plan) -> dict[str, Any]:
    assert isinstance(plan.coordination, PatternPlan)
    return plan.coordination.config


def moody(rng: Random, request: Request) -> Result:
    said = ["", "{", "I agree.", "BLOCKED: no", '{"approved": "maybe"}', '{"reassign_to": "b_1"}', '{"route_to": "w0"}']
    said += ['{"approved": false}', '{"subtasks": ["x", "y", "z"]}', '{"answer": "A", "confidence": 0.1}', "A"]
    return failed() if rng.random() < 0.1 else answered(rng.choice(said))
