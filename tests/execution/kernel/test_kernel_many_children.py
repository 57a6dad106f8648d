"""Very many child runs at once: an event costs the same however many runs wait, and every run gets its turn."""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import value_agents as values
from hypothesis import given, settings
from hypothesis import strategies as st
from random_nests import random_nest

import coterie
from coterie import agent, flow
from coterie.execution.kernel import driven_run, run_tree, shell
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.run_tree import Ledger, RunTree
from coterie.testing import simulate

_LOOKING = {module.__file__ for module in (driven_run, run_tree, shell)}


def _lines(teams: int, state_dir: Path, **limits: Any) -> int:
    """Run *teams* at once, of which two have a slot; return how many lines the modules that look at runs execute."""
    inner = flow("inner", [one := agent(values.sees_prompt)], result=one)
    plan = coterie.plan(flow("outer", [agent(f"n{n}", inner) for n in range(teams)]))
    lines = 0

    def within(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return within

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: within if frame.f_code.co_filename in _LOOKING else None)
    try:
        most = coterie.Limits(max_parallel=2, **limits)
        outcome = asyncio.run(coterie.run(plan, "tea", limits=most, state_dir=state_dir))
    finally:
        sys.settrace(before)
    assert (outcome.status, outcome.usage.turns) == ("completed", teams)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {"max_turns": 1000}, {"max_cost": 5.0}], ids=["slots", "turns", "cost"])
def test_a_team_costs_the_same_beside_few_and_beside_many_others(limits: dict[str, Any], tmp_path: Path) -> None:
    """No event is followed by a look at all runs, whatever the limit that the runs wait for."""
    few, many = 30, 120
    beside_few = _lines(few, tmp_path / "few", **limits) / few
    beside_many = _lines(many, tmp_path / "many", **limits) / many
    assert beside_many < beside_few * 1.5, (beside_few, beside_many)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2_000))
def test_what_is_kept_of_runs_is_what_a_look_at_all_would_find(seed: int) -> None:
    """The taken slots and turns, and the runs with something to do, whatever fails or is called off."""
    compared = 0
    count, waiting, sort = Ledger._count, RunTree.waiting, RunTree._sort

    def checked_count(ledger: Ledger) -> None:
        count(ledger)
        runs = list(ledger._runs.values())
        assert ledger._busy == sum(live.core.busy for live in runs)
        began = [0 if live.core.called_off else live.core.used.turns + live.core.taken for live in runs]
        assert ledger._turns == sum(began) + sum(len(live.core.reserved) for live in runs)
        assert ledger._overspent == sum(live.overspent for live in runs)
        if ledger.limits.max_cost is not None:
            costs = [ledger._costs(live) for live in runs if not live.core.called_off]
            assert ledger._settled() == pytest.approx(sum(settled for settled, _ in costs))
            assert ledger._pending() == pytest.approx(sum(pending for _, pending in costs))

    def checked_waiting(tree: RunTree) -> list[DrivenRun]:
        nonlocal compared
        found = waiting(tree)
        assert found == [live for live in tree.runs.values() if live.waits]
        compared += 1
        return found

    def checked_sort(tree: RunTree) -> None:
        sort(tree)
        assert set(tree._queued) == {one for one in tree.runs.values() if one.core.queued and not one.core.called_off}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "_count", checked_count)
        patch.setattr(RunTree, "waiting", checked_waiting)
        patch.setattr(RunTree, "_sort", checked_sort)
        simulate(random_nest(seed // 2), seed)
    assert compared
