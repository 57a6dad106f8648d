"""The warning about a cost limit that nothing can reach."""

import pytest
from loop_play import Play, loop_plan

from coterie.journal import records as r
from coterie.planning.plan import to_json
from coterie.views.timeline import fold


@pytest.mark.parametrize(("limit", "cost", "warned"), [(1.0, 0.0, 1), (1.0, 0.1, 0), (0.0, 0.0, 0)])
def test_a_limit_without_reported_cost_is_a_warning(limit: float, cost: float, warned: int) -> None:
    """Once in a run, at the first turn that reports none."""
    play = Play(loop_plan(max_cost=limit))
    play.answer("a", usage=r.Usage(cost=cost))
    play.answer("b", usage=r.Usage(cost=cost))
    first = r.RunStarted(run="r", engine="loop", plan=to_json(play.plan).decode(), seq=1)

    lines = fold([first, *play.log[1:]]).lines
    assert sum("reported no cost" in line.text for line in lines) == warned
