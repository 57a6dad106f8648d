"""Very many child runs at once: a free slot is given without a look at all of them for each of them."""

import asyncio
from pathlib import Path

import pytest
import value_agents as values

import coterie
from coterie import agent, flow
from coterie.execution.kernel.run_tree import Ledger


def test_a_run_with_many_teams_counts_its_slots_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every team gets its turn; the slots are counted a few times for each, however many wait for one."""
    counts, busy = 0, Ledger.busy.fget

    def counted(self: Ledger) -> int:
        nonlocal counts
        counts += 1
        assert busy is not None
        found: int = busy(self)
        assert found <= 2
        return found

    monkeypatch.setattr(Ledger, "busy", property(counted))
    inner = flow("inner", [one := agent(values.sees_prompt)], result=one)
    outer = flow("outer", [agent(f"n{n}", inner) for n in range(60)])
    limits = coterie.Limits(max_parallel=2, max_turns=60)
    outcome = asyncio.run(coterie.run(outer, "tea", limits=limits, state_dir=tmp_path))

    assert (outcome.status, outcome.usage.turns) == ("completed", 60)
    assert counts <= 60 * 8, counts
