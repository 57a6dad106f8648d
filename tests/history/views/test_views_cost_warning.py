"""The warning about a cost limit that nothing can reach."""

import pytest
from loop_play import Play, loop_plan

from coterie.history.journal import records as r
from coterie.history.views.timeline import fold
from coterie.team.planning.plan import AgentPlan, Limits, Plan, to_json


@pytest.mark.parametrize(("limit", "cost", "warned"), [(1.0, 0.0, 1), (1.0, 0.1, 0), (0.0, 0.0, 0)])
def test_a_limit_without_reported_cost_is_a_warning(limit: float, cost: float, warned: int) -> None:
    """Once in a run, at the first turn that reports none."""
    play = Play(loop_plan(max_cost=limit))
    play.answer("a", usage=r.Usage(cost=cost))
    play.answer("b", usage=r.Usage(cost=cost))
    first = r.RunStarted(run="r", engine="loop", plan=to_json(play.plan).decode(), seq=1)

    lines = fold([first, *play.log[1:]]).lines
    assert sum("reported no cost" in line.text for line in lines) == warned


def test_each_agent_that_reports_no_cost_under_a_budget_is_named() -> None:
    """Once; a person and a team have none themselves, and whether a budget is set may change at a resume."""
    agents = {
        "a": AgentPlan(name="a"),
        "b": AgentPlan(name="b"),
        "person": AgentPlan(name="person", kind="human"),
        "team": AgentPlan(name="team", kind="topology"),
    }
    plan = Plan(name="t", agents=agents)
    ends = [
        *(("a", r.NO_USAGE), ("b", r.Usage(cost=0.1)), ("a", r.NO_USAGE), ("b", r.NO_USAGE), ("person", r.NO_USAGE)),
        ("team", r.Usage(turns=2)),
    ]

    def lines(budget: float | None) -> list[str]:
        log: list[r.Record] = [r.RunStarted(run="r", engine="flow", plan=to_json(plan).decode(), seq=1)]
        log += [r.RunOwned(epoch=1, limits=Limits(max_cost=9.0)), r.RunOwned(epoch=2, limits=Limits(max_cost=budget))]
        for n, (agent, usage) in enumerate(ends):
            log.append(r.TurnStarted(turn=f"{agent}#{n}", agent=agent))
            log.append(r.TurnFinished(turn=f"{agent}#{n}", attempt=1, usage=usage))
        return [line.text.partition("warning: ")[2] for line in fold(log).lines if "no cost" in line.text]

    assert lines(1.0) == [f"{name} reported no cost, so --max-cost may have no effect" for name in "ab"]
    assert lines(None) == []
