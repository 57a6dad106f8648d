"""Storage is linear in new text, however often it is quoted."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import structs
from played import played
from stage import Cast
from steps import most_held

from coterie.agents.backends.base import Answer, Request
from coterie.base.clock import SystemClock
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import Conversation, Question
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, RunStarted, TurnFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, Plan

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
        RunPorts(
            store=store,
            turns=cast,
            make_kind=played(lambda plan: (GeneratorEngine(quoting(turns)), plan.agents)),
            clock=SystemClock(),
            files=AttemptFolders(Runs(folder)),
        )
    )
    asyncio.run(shell.start("r", plan, {"prompt": "go"}))
    asked = sum(len(request.prompt) for request in cast.asked)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), asked


def test_250_turns_that_quote_the_growing_history(tmp_path: Path) -> None:
    """What is kept is what is new: a journal that repeated the questions would be a hundred times as large."""
    half, _ = stored(tmp_path / "half", 125)
    whole, asked = stored(tmp_path / "whole", 250)

    assert whole < 2.1 * half
    assert whole < 250 * (NEW + 800)
    assert (asked + whole) / whole > 75


def test_what_is_kept_in_memory_is_what_is_new() -> None:
    """A question is let go of once its turn has ended, whole ones and chats that each repeat all that was said."""

    def held(turns: int) -> int:
        def conversation(given: dict[str, Any]) -> Conversation:
            chat: list[tuple[str, str]] = []
            for n in range(turns):
                question = Question("writer", f"{n} ".ljust(10 * turns, "q"), history=chat, given={"n": [n] * turns})
                chat += [("user", f"{n}"), ("assistant", (yield question).text)]
            return len(chat)

        fold, journal = (
            Fold("r", played(lambda plan: (GeneratorEngine(conversation), {}))(Plan(name="p"))),
            _played(turns),
        )
        return most_held(lambda: fold.fold(journal))

    held(50)  # what is loaded once
    assert held(400) < 8 * held(100)  # with all questions it is 16 times as much


def _played(turns: int) -> list[Record]:
    """The journal of a conversation: each question is answered."""
    records: list[Record] = [RunStarted(run="r", engine="generator")]
    for n in range(1, turns + 1):
        records.append(TurnStarted(turn=f"writer#{n}", agent="writer", cause=(len(records), 0)))
        records.append(TurnFinished(turn=f"writer#{n}", attempt=1, text=f"said {n}"))
    return [structs.replace(record, seq=seq) for seq, record in enumerate(records, 1)]
