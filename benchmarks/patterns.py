"""The cost of a pattern per call, beside `asyncio.create_task` + `await` of the same stub.

Chains, fan-outs of 1,000 and nested compounds, with the journal in memory and durable on disk; durable calls in turn
beside one bare `write` + `fdatasync` a call, and for nested teams also one bare new file in new folders a team, since
each has a separate journal. The agents answer at once, so only our own work is measured. Each figure is the median of
several rounds in which all sides take turns.

    python benchmarks/patterns.py
"""

import argparse
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from turns import bare, bare_sync, durable, in_memory, rounds, timed, us

from coterie.history.engines.patterns.registry import Team, pattern
from coterie.history.engines.questions import Conversation, Question, Together
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Plan


@pattern("bench-chain")
def chain(team: Team, given: Mapping[str, Any]) -> Conversation:
    """A thousand questions, one after the other."""
    for _ in range(1_000):
        reply = yield Question("a", "go")
    return reply.text


@pattern("bench-short-chain")
def short_chain(team: Team, given: Mapping[str, Any]) -> Conversation:
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


def pipeline(n: int) -> Plan:
    return of("pipeline", *(f"s{k}" for k in range(n)))


def nested(branches: int, inner_team: Plan, kind: str) -> Plan:
    """A compound of compounds of teams."""
    inner = {f"e{k}": inner_team for k in range(branches)}
    halves = list(inner.items())
    middle = {
        f"c{k}": teams(
            "compound", below(**dict(halves[k::2])), composition_type=kind, sub_topologies=[n for n, _ in halves[k::2]]
        )
        for k in range(2)
    }
    return teams("compound", below(**middle), composition_type=kind, sub_topologies=list(middle))


class Case(NamedTuple):
    """A plan, how many calls it makes, and how many teams, itself included, make them one after the other."""

    plan: Plan
    calls: int
    teams: int | None = 1

    @property
    def parallel(self) -> bool:
        """Whether fifty or more of the calls run side by side."""
        return self.teams is None


CASES: dict[str, Case] = {
    "chain of 1,000": Case(of("bench-chain", "a"), 1_000),
    "pipeline of 100": Case(pipeline(100), 100),
    "nested, 10 x 100 in turn": Case(nested(10, of("bench-short-chain", "a"), "sequential"), 1_000, teams=13),
    "fan-out of 1,000": Case(of("bench-fan", "a"), 1_000, teams=None),
    "ensemble of 1,000": Case(ensemble(1_000), 1_000, teams=None),
    "nested, 10 x 100 at once": Case(nested(10, ensemble(100), "parallel"), 1_000, teams=None),
}


def bare_new_journal(n: int, folder: Path) -> float:
    """Seconds for the first durable line of a file in two new folders, names and all."""

    def write(root: str) -> None:
        for k in range(n):
            above = Path(root, str(k))
            below = above / "run"
            below.mkdir(parents=True)
            with (below / "journal").open("wb", buffering=0) as file:
                file.write(b"x" * 300 + b"\n")
                os.fdatasync(file.fileno())
            for path in (root, above, below):
                fd = os.open(path, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)

    with tempfile.TemporaryDirectory(dir=folder) as root:
        return timed(lambda: write(root)) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where durable journals are written")
    given = parser.parse_args()
    for name, case in CASES.items():
        n = case.calls
        one, at_once, sync, new, memory, disk = rounds(
            given.rounds * (1 if case.parallel else 5),
            partial(bare, n, parallel=False),
            partial(bare, n, parallel=True),
            partial(bare_sync, 1_000, given.folder),
            partial(bare_new_journal, 20, given.folder),
            partial(in_memory, case.plan, n),
            partial(durable, case.plan, n, given.folder),
        )
        print(
            f"{name:25} create_task+await {us(one)}, all at once {us(at_once)}  memory {us(memory)} a call"
            f" = {memory / one:5.2f}x (≤ 12), {memory / at_once:5.2f}x of all at once"
        )
        if case.teams is None:
            print(f"{'':25} durable {us(disk)} a call = {disk / memory:.2f}x of memory (≤ 2)")
            continue
        limit, journals = sync + new * case.teams / n, "1 new journal" if case.teams == 1 else f"{case.teams} journals"
        print(
            f"{'':25} write+fdatasync {us(sync)}, with {journals} {us(limit)}  durable {us(disk)} a call"
            f" = {disk / sync:.2f}x, {disk / limit:.2f}x (≤ 1.5)"
        )


if __name__ == "__main__":
    main()
