"""The costs of a run and its child runs: by agent, model and turn, and over time."""

from collections.abc import Iterable

from msgspec import Struct

from coterie.history.views.rows import CostRow
from coterie.history.views.usage import Totals


class CostPoint(Struct, frozen=True, kw_only=True):
    """The *total* in US dollars after an attempt of *turn* of *run* ended at that time."""

    at: float
    run: str
    turn: str
    cost: float
    total: float


class Costs(Struct, frozen=True, kw_only=True):
    """The costs of a run.

    Attributes:
        by_agent: Costs by the path of the agent, `node/agent` in a team at a node; *by_turn* has the child run's id
            instead.
        points: The totals in the order of time.
        budget: US dollars; None without one.
    """

    total: Totals
    by_agent: dict[str, Totals]
    by_model: dict[str, Totals]
    by_turn: dict[str, Totals]
    points: tuple[CostPoint, ...]
    budget: float | None = None


def costs(rows: Iterable[CostRow], root: str, budget: float | None = None) -> Costs:
    """Sum up the costs of the attempts in *rows*, which belong to *root* and its child runs."""
    total, points = Totals(), list[CostPoint]()
    agents, models, turns = dict[str, Totals](), dict[str, Totals](), dict[str, Totals]()
    for row in sorted(rows, key=lambda row: row.at):
        below = row.run.removeprefix(root).removeprefix("/")
        path = [part.rpartition("#")[0] for part in below.split("/") if part]
        keys = (
            (agents, "/".join([*path, row.agent])),
            (models, row.model or "(none)"),
            (turns, "/".join(filter(None, (below, row.turn)))),
        )
        for one in (total, *(table.setdefault(key, Totals()) for table, key in keys)):
            one.attempts += 1  # their turns are not counted
            for name in ("cost", "input_tokens", "output_tokens", "seconds", "unpriced"):
                setattr(one, name, getattr(one, name) + getattr(row, name))
        points.append(CostPoint(at=row.at, run=row.run, turn=row.turn, cost=row.cost, total=total.cost))
    return Costs(total=total, by_agent=agents, by_model=models, by_turn=turns, points=tuple(points), budget=budget)


def dearest(found: Costs) -> dict[str, float]:
    """The cost of the most expensive turn of each agent, by the agent's path."""
    most: dict[str, float] = {}
    for turn, spent in found.by_turn.items():
        path = "/".join(part.rpartition("#")[0] for part in turn.split("/"))
        most[path] = max(most.get(path, 0.0), spent.cost)
    return most
