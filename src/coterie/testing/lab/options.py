"""Variants of a team: the settings worth comparing, and the single agent that any team must beat."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from coterie.planning.pattern import PatternPlan, SlotPlan
from coterie.planning.plan import Plan
from coterie.testing.lab.trials import pattern_of
from coterie.testing.simulated_agents import Assumptions
from coterie.topology.patterns.configs import EnsembleSettings
from coterie.topology.patterns.slots import COORDINATOR, MEDIATOR, PRIMARY, members

SAMPLES = (1, 3, 5)
"""Numbers of samples to vote on."""

WRITTEN = "as written"
"""The name of the team as the file describes it."""

REVISIONS = (0, 1, 2)
ROUNDS = (1, 2, 3)
VOTERS = (3, 5)


class Option(Struct, frozen=True):
    """One variant, and the assumptions about its agents, by the names in its plan."""

    name: str
    plan: Plan
    assumptions: Assumptions


def options(plan: Plan, assumptions: Assumptions) -> list[Option]:
    """The variants: one agent alone, a vote of its answers, the team as written, and its changed settings.

    Equal variants are listed once.
    """
    found: dict[str, Option] = {}
    for name, way, assumed in _options(plan, assumptions):
        option = Option(name, way, assumed)
        same = option.plan.content_hash()
        if same in found and found[same].name == WRITTEN:
            found[same] = structs.replace(option, name=f"{WRITTEN}: {option.name}")
        found.setdefault(same, option)
    return list(found.values())


def _options(plan: Plan, assumptions: Assumptions) -> Iterator[tuple[str, Plan, Assumptions]]:
    within, slot, assumed = _alone(plan, assumptions)
    yield f"{slot} alone", _vote(within, slot, 1), assumed
    for n in VOTERS:
        yield f"{slot} {n} times, vote, stop", _vote(within, slot, n), assumed
    yield WRITTEN, plan, assumptions
    for name, way in _changed(plan, assumptions):
        yield name, way, assumptions


def _changed(plan: Plan, assumptions: Assumptions) -> Iterator[tuple[str, Plan]]:
    """The variants with changed settings."""
    match pattern_of(plan).type:
        case "ensemble":
            yield from _of_ensemble(plan, assumptions)
        case "crosscheck":
            yield from _of_crosscheck(plan)
        case "debate":
            yield from _of_debate(plan)
        case _:
            pass


def _of_ensemble(plan: Plan, assumptions: Assumptions) -> Iterator[tuple[str, Plan]]:
    """Other numbers of samples, a vote, a vote weighted by accuracy, and stopping once it is decided."""
    pattern = pattern_of(plan)
    names = members([slot.name for slot in pattern.slots])
    accuracy = {name: min(max(assumptions.of(name).accuracy, 0.001), 0.999) for name in names}
    ways: dict[str, dict[str, Any]] = {"vote": {"aggregation_method": "vote"}}
    if len(set(accuracy.values())) > 1:
        ways["weighted"] = {"aggregation_method": "weighted", "weights": "log_odds", "accuracy": accuracy}
    written = pattern.config["aggregation_method"]
    if written not in ways:
        ways = {written: {}, **ways}
    for name, way in ways.items():
        for samples in sorted({*SAMPLES, pattern.config["samples"]}):
            label = f"{name}, {samples} sample{'s' if samples > 1 else ''}"
            yield label, _with(plan, {"stop_when_decided": False, **way, "samples": samples})
            if name in ("vote", "weighted"):
                yield f"{label}, stop", _with(plan, {**way, "samples": samples, "stop_when_decided": True})


def _of_crosscheck(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """More or fewer revisions, and stopping once the verdict is decided."""
    pattern = pattern_of(plan)
    for revisions in sorted({*REVISIONS, pattern.config["max_revisions"]}):
        label = f"{revisions} revision{'s' if revisions != 1 else ''}"
        yield label, _with(plan, {"max_revisions": revisions, "stop_when_decided": False})
        yield f"{label}, stop", _with(plan, {"max_revisions": revisions, "stop_when_decided": True})


def _of_debate(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """More or fewer rounds; the verdict once or in both orders, or a vote of all three."""
    pattern = pattern_of(plan)
    for rounds in sorted({*ROUNDS, pattern.config["max_rounds"]}):
        fewer = {"max_rounds": rounds, "min_rounds": min(rounds, pattern.config["min_rounds"])}
        label = f"{rounds} round{'s' if rounds > 1 else ''}"
        for name, way in (
            ("a verdict", {"consensus_method": "mediator", "swap_verdict": False}),
            ("swapped verdicts", {"consensus_method": "mediator", "swap_verdict": True}),
            ("a vote", {"consensus_method": "majority", "swap_verdict": False}),
        ):
            yield f"{label}, {name}", _with(plan, {**fewer, **way})


def _with(plan: Plan, changed: Mapping[str, Any]) -> Plan:
    pattern = pattern_of(plan)
    return structs.replace(plan, coordination=structs.replace(pattern, config={**pattern.config, **changed}))


def _vote(plan: Plan, slot: str, samples: int) -> Plan:
    """The agent at *slot* of *plan*, called a number of times, or until its answers have decided a vote."""
    config = EnsembleSettings(aggregation_method="vote", samples=samples, stop_when_decided=True)
    pattern = PatternPlan(type="ensemble", config=msgspec.to_builtins(config), slots=(SlotPlan(name=slot),))
    stand_ins = {name: agent for name, agent in plan.agents.items() if name in _standing_in(plan, slot)}
    return Plan(name=slot, agents={slot: plan.agents[slot], **stand_ins}, coordination=pattern)


def _standing_in(plan: Plan, slot: str) -> set[str]:
    found: set[str] = set()
    while (slot := plan.agents[slot].fallback) and slot in plan.agents and slot not in found:
        found.add(slot)
    return found


def _alone(plan: Plan, assumptions: Assumptions) -> tuple[Plan, str, Assumptions]:
    """The agent that would answer alone, the best of those that answer; its team, and the assumptions there."""
    pattern = pattern_of(plan)
    slots = [slot.name for slot in pattern.slots]
    match pattern.type:
        case "crosscheck":
            slots = [PRIMARY]
        case "debate":
            slots = [MEDIATOR if MEDIATOR in slots else pattern.config["mediator_agent_name"]]
        case "ensemble":
            slots = list(members(slots))
        case "delegation" if pattern.config["routing_strategy"] == COORDINATOR:
            slots = [slot for slot in slots if slot != COORDINATOR]  # it chooses who answers
        case _:
            pass
    found = []
    for name in slots:
        child = plan.agents[name].child
        found.append((plan, name, assumptions) if child is None else _alone(child, _within(assumptions, f"{name}/")))
    return max(found, key=lambda one: one[2].of(one[1]).accuracy)


def _within(assumptions: Assumptions, path: str) -> Assumptions:
    """*assumptions* for the team at *path*: a skill of an agent there uses its name in the team."""
    there = {name.removeprefix(path): skill for name, skill in assumptions.skills.items() if name.startswith(path)}
    return structs.replace(assumptions, skills={**assumptions.skills, **there})
