"""What a pattern costs per call, beside `asyncio.create_task` + `await` of the same stub.

Chains, fan-outs of 1,000 and nested compounds, with the journal in memory and durable on disk; durable chains beside
one bare `write` + `fdatasync` a call. Nobody thinks, so all that is measured is ours. Every figure is the median of
several rounds in which all sides take turns.

    python benchmarks/patterns.py
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from turns import bare, bare_sync, durable, in_memory, rounds, us

from coterie.engines.generator import Conversation, Question, Together
from coterie.engines.patterns.registry import Team, pattern
from coterie.planning.pattern import PatternPlan, SlotPlan
from coterie.planning.plan import AgentPlan, Plan


@pattern("bench-chain")
def chain(team: Team, given: Mapping[str, Any]) -> Conversation:
    """A hundred questions, one after the other."""
    for _ in range(100):
        reply = yield Question("a", "go")
    return reply.text


@pattern("bench-fan")
def fan(team: Team, given: Mapping[str, Any]) -> Conversation:
    """A thousand questions at once."""
    replies = yield Together(*(Question("a", "go") for _ in range(1_000)))
    return replies[-1].text


def of(type: str, *slots: str, **config: Any) -> Plan:
    """The plan of a pattern whose slots are agents."""
    return teams(type, {slot: AgentPlan(name=slot, backend="stub") for slot in slots}, **config)


def teams(type: str, agents: Mapping[str, AgentPlan], **config: Any) -> Plan:
    """The plan of a pattern."""
    slots = tuple(SlotPlan(name=name) for name in agents)
    return Plan(name="bench", agents=dict(agents), coordination=PatternPlan(type=type, config=config, slots=slots))


def below(**plans: Plan) -> dict[str, AgentPlan]:
    """Teams that fill slots."""
    return {name: AgentPlan(name=name, kind="topology", child=plan) for name, plan in plans.items()}


def ensemble(n: int) -> Plan:
    return of("ensemble", *(f"ensemble_{k}" for k in range(n)), aggregation_method="concat")


def nested(branches: int, members: int, kind: str) -> Plan:
    """A compound of compounds of ensembles."""
    inner = {f"e{k}": ensemble(members) for k in range(branches)}
    halves = list(inner.items())
    middle = {
        f"c{k}": teams(
            "compound", below(**dict(halves[k::2])), composition_type=kind, sub_topologies=[n for n, _ in halves[k::2]]
        )
        for k in range(2)
    }
    return teams("compound", below(**middle), composition_type=kind, sub_topologies=list(middle))


CASES: dict[str, tuple[Plan, int, bool]] = {
    "chain of 100": (of("bench-chain", "a"), 100, False),
    "pipeline of 100": (of("pipeline", *(f"s{k}" for k in range(100))), 100, False),
    "nested, 10 x 10 in turn": (nested(10, 10, "sequential"), 100, False),
    "fan-out of 1,000": (of("bench-fan", "a"), 1_000, True),
    "ensemble of 1,000": (ensemble(1_000), 1_000, True),
    "nested, 10 x 100 at once": (nested(10, 100, "parallel"), 1_000, True),
}
"""The plan, how many calls it makes, and whether fifty or more of them run side by side."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where durable journals are written")
    given = parser.parse_args()
    for name, (plan, n, parallel) in CASES.items():
        one, at_once, sync, memory, disk = rounds(
            given.rounds,
            partial(bare, n, parallel=False),
            partial(bare, n, parallel=True),
            partial(bare_sync, min(n, 100), given.folder),
            partial(in_memory, plan, n),
            partial(durable, plan, n, given.folder),
        )
        print(
            f"{name:25} create_task+await {us(one)}, all at once {us(at_once)}  memory {us(memory)} a call"
            f" = {memory / one:5.2f}x (≤ 12), {memory / at_once:5.2f}x of all at once"
        )
        beside = f"{disk / memory:.2f}x of memory (≤ 2)" if parallel else f"{disk / sync:.2f}x (≤ 1.5)"
        print(f"{'':25} write+fdatasync {us(sync)}  durable {us(disk)} a call = {beside}")


if __name__ == "__main__":
    main()
