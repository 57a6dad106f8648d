"""Storage is linear in new text, however often it is quoted."""

import asyncio
from pathlib import Path
from typing import Any

from stage import Cast

from coterie.backends.base import Answer, Request
from coterie.clock import SystemClock
from coterie.engines.generator import Conversation, GeneratorEngine, Question
from coterie.journal.jsonl import JsonlStore
from coterie.planning.plan import AgentPlan, Plan
from coterie.runs.folder import DiskPlace
from coterie.runs.shell import Shell

NEW = 1_500
"""Characters that each turn adds."""


def quoting(turns: int) -> Any:
    """Every question quotes all that was said before."""

    def conversation(given: dict[str, Any]) -> Conversation:
        history: list[str] = []
        for _ in range(turns):
            history.append((yield Question("writer", "\n".join(history))).text)
        return len(history)

    return conversation


def answer(request: Request) -> Answer:
    return Answer(text=f"{request.turn} ".ljust(NEW, "x"))


def stored(folder: Path, turns: int) -> tuple[int, int]:
    """Bytes of everything a run of so many turns leaves on disk, and of the questions it asked."""
    store = JsonlStore(folder)
    cast = Cast({"writer": [answer]}, seconds=0.0)
    plan = Plan(name="quoting", agents={"writer": AgentPlan(name="writer")})
    shell = Shell(
        store=store,
        turns=cast,
        make_engine=lambda plan: (GeneratorEngine(quoting(turns)), plan.agents),
        clock=SystemClock(),
        place=DiskPlace(store, folder),
    )
    asyncio.run(shell.start("r", plan, {"prompt": "go"}))
    asked = sum(len(request.prompt) for request in cast.asked)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), asked


def test_500_turns_that_quote_the_growing_history(tmp_path: Path) -> None:
    """What is kept is what is new: a journal that repeated the questions would be two hundred times as large."""
    half, _ = stored(tmp_path / "half", 250)
    whole, asked = stored(tmp_path / "whole", 500)

    assert whole < 2.1 * half
    assert whole < 500 * (NEW + 700)
    assert (asked + whole) / whole > 150
    print(f"500 turns: {whole} bytes kept, {asked + whole} if questions were kept: {(asked + whole) / whole:.0f}x")
