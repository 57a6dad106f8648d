"""Very many child runs at once: a free slot is given without a look at all of them for each of them."""

import asyncio
from pathlib import Path

import pytest
import value_agents as values

import coterie
from coterie import agent, flow
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.run_tree import Ledger

TEAMS = 100


@pytest.mark.parametrize(("most", "looks"), [(TEAMS, TEAMS * TEAMS), (None, TEAMS * 24)])
def test_a_run_with_many_teams_counts_its_slots_few_times(
    most: int | None, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every team gets its turn; the slots are counted a few times for each, however many wait for one.

    Where a start waits for nothing but a slot, no queue is looked at while all slots are taken.
    """
    counts, looked, is_busy, queued = 0, 0, Ledger.is_busy, Fold.queued.fget

    def counted(self: Ledger, turns: int = 1) -> bool:
        nonlocal counts
        counts += 1
        assert not is_busy(self, 3)
        return is_busy(self, turns)

    def seen(self: Fold) -> bool:
        nonlocal looked
        looked += 1
        assert queued is not None
        found: bool = queued(self)
        return found

    monkeypatch.setattr(Ledger, "is_busy", counted)
    monkeypatch.setattr(Fold, "queued", property(seen))
    inner = flow("inner", [one := agent(values.sees_prompt)], result=one)
    outer = flow("outer", [agent(f"n{n}", inner) for n in range(TEAMS)])
    limits = coterie.Limits(max_parallel=2, max_turns=most)
    outcome = asyncio.run(coterie.run(outer, "tea", limits=limits, state_dir=tmp_path))

    assert (outcome.status, outcome.usage.turns) == ("completed", TEAMS)
    assert counts <= TEAMS * 8, counts
    assert looked <= looks, looked
