"""Rehearsals of what was proved, with every turn counted as `--max-turns` counts it."""

from collections import Counter
from typing import Any

import pytest

from coterie.base.ids import child_run_id
from coterie.errors import NoSuchRun
from coterie.execution.runs import rehearsal
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import TurnStarted
from coterie.team.planning.plan import Plan


def replay(plan: Plan, script: Any) -> tuple[Any, Counter[str]]:
    """The document of a rehearsal of *plan*, and its turns by agent; in total under ``""``."""
    stores: list[MemoryStore] = []

    class Store(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            stores.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rehearsal, "MemoryStore", Store)
        document = rehearsal.rehearse(plan, {"prompt": "go"}, script)
    turns: Counter[str] = Counter()
    _count(stores[0], rehearsal.RUN, plan, "", turns)
    return document, turns


def _count(store: MemoryStore, run: str, plan: Plan, path: str, turns: Counter[str]) -> None:
    """Child runs of attempts that failed count like any other."""
    try:
        records = list(store.read(run))
    except NoSuchRun:
        return  # called off before it began
    for record in records:
        if isinstance(record, TurnStarted):
            agent = plan.agents.get(record.agent)
            if agent is not None and agent.child is not None:
                below = child_run_id(run, record.turn, record.attempt)
                _count(store, below, agent.child, f"{path}{record.agent}/", turns)
            elif record.attempt == 1:
                turns.update(["", path + record.agent])
