"""Measure how often each option is right and what it costs, with the same questions for all."""

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from coterie.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.planning import as_plan
from coterie.planning.plan import Plan
from coterie.proofs.measures import asked_paths
from coterie.testing.lab.options import options
from coterie.testing.lab.trials import Played, pattern_of, play
from coterie.testing.simulated_agents import Assumptions, SimulatedAgents, is_right, names_of
from coterie.topology.model import Topology

RUNS = 1000
"""The default number of questions per option: the numbers are accurate to about 0.03."""

SURE = 1.96
"""The number of standard errors of an interval that holds the truth in 19 of 20 cases."""

MANY_TEXTS = ("average", "concat")
"""Aggregation methods whose answers are neither right nor wrong in the simulation."""


class Measured(Struct, frozen=True, kw_only=True):
    """The measurements of an option.

    Attributes:
        calls: The average number of attempts per question.
        accuracy: The share of right answers; *low* and *high* hold the truth in 19 of 20 cases.
        failed: The share of questions without an answer, which is not right.
        decided: The share of definite answers: approved, without a tie, the same in both orders.
        right_when_decided: The accuracy of these; None: there were none.
        worth: No other option is as accurate with fewer calls, or more accurate with as many.
    """

    name: str
    calls: float
    accuracy: float
    low: float
    high: float
    failed: float
    decided: float
    right_when_decided: float | None
    worth: bool = False


class Comparison(Struct, frozen=True, kw_only=True):
    """The measurements of a team's options, the single agent first."""

    pattern: str
    runs: int
    seed: int
    assumptions: Assumptions
    options: tuple[Measured, ...]


def compare(
    plan: Plan | Topology,
    assumptions: Assumptions,
    *,
    runs: int = RUNS,
    seed: int = 0,
    told: Callable[[str], object] = lambda name: None,
) -> Comparison:
    """Ask every option of the team of *plan* the same questions.

    Args:
        told: Called with the name of each option before it runs.

    Raises:
        UsageError: If the team cannot be simulated, a skill names an unknown slot, or *runs* is below 1.
    """
    plan = as_plan(plan)
    if runs < 1:
        raise UsageError(f"runs must be at least 1, not {runs}")
    pattern = pattern_of(plan)
    _refuse_strangers(plan, assumptions)
    if pattern.type == "ensemble" and pattern.config["aggregation_method"] in MANY_TEXTS:
        method = pattern.config["aggregation_method"]
        raise UsageError(f"an ensemble with {method!r} gives no answer that is right or wrong; simulate it with 'vote'")
    found: list[Measured] = []
    for option in options(plan, assumptions):
        told(option.name)
        found.append(measure(option.name, option.plan, option.assumptions, runs=runs, seed=seed))
    return Comparison(
        pattern=plan.name, runs=runs, seed=seed, assumptions=assumptions, options=tuple(with_worth(found))
    )


def measure(name: str, plan: Plan, assumptions: Assumptions, *, runs: int, seed: int = 0) -> Measured:
    """Ask one team *runs* questions."""
    agents = SimulatedAgents(plan, assumptions, seed)
    calls = right = failed = decided = right_then = 0
    for question in range(runs):
        played = play(plan, agents, str(question))
        good, sure = is_right(played.text), _is_decided(played)
        calls, failed, right = calls + played.calls, failed + bool(played.reason), right + good
        decided, right_then = decided + sure, right_then + (sure and good)
    low, high = interval(right, runs)
    return Measured(
        name=name,
        calls=calls / runs,
        accuracy=right / runs,
        low=low,
        high=high,
        failed=failed / runs,
        decided=decided / runs,
        right_when_decided=right_then / decided if decided else None,
    )


def interval(right: int, runs: int) -> tuple[float, float]:
    """The interval that holds the truth in 19 of 20 cases if *right* of *runs* were right (Wilson's score interval)."""
    share, spread = right / runs, SURE * SURE / runs
    middle = (share + spread / 2) / (1 + spread)
    half = SURE * math.sqrt(share * (1 - share) / runs + spread / (4 * runs)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _is_decided(played: Played) -> bool:
    said = played.outputs
    stands = said.get("final_approved", True) and said.get("consistent", True) and not said.get("tie", False)
    return not played.reason and bool(stands)


def with_worth(found: Sequence[Measured]) -> Iterator[Measured]:
    """*found*, each with *worth* set in comparison with the others."""
    for one in found:
        beaten = any(
            other.calls <= one.calls
            and other.accuracy >= one.accuracy
            and (other.calls, other.accuracy) != (one.calls, one.accuracy)
            for other in found
        )
        yield structs.replace(one, worth=not beaten)


def _refuse_strangers(plan: Plan, assumptions: Assumptions) -> None:
    known = set(asked_paths(plan))
    names = {name for path in known for name in names_of(path)}
    for name in assumptions.skills:
        if name not in names:
            hint = did_you_mean(name, names) or f"there are {', '.join(sorted(known))}"
            raise UsageError(f"the team has no agent {name!r}; {hint}")
