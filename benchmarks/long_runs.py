"""Runs of many turns, made quickly: two agents that hand a draft to each other, answered in this process."""

import asyncio
from pathlib import Path
from typing import Any

from turns import Stub

import coterie
from coterie.agents.backends.base import Answer, OnEvent, Request
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.runs import launch
from coterie.history.journal.records import Usage
from coterie.team import planning

TEAM = """topology long : [pipeline] {
  agent writer { model: "m" prompt { Improve the draft. } }
  agent reviewer { model: "m" outputs { verdict: approve | revise } }
  flow {
    writer -> reviewer
    reviewer -> writer [when reviewer.verdict == "revise", max %d]
  }
}
"""


class Answers(Stub):
    """Each turn answers at once, at a price; the reviewer is content with the last draft alone."""

    def __init__(self, turns: int, pause: float = 0.0) -> None:
        self.turns, self.pause = turns, pause

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        if self.pause:
            await asyncio.sleep(self.pause)
        number = int(request.turn.rpartition("#")[2])
        usage = Usage(input_tokens=900, output_tokens=90, cost=0.001, seconds=1.0)
        text = f"Draft {number}: the parser reads one more form of a date, and says which line it cannot read."
        outputs: dict[str, Any] | None = None
        if request.agent.name == "reviewer":
            outputs = {"verdict": "approve" if 2 * number >= self.turns else "revise"}
        return CompletedSession(Answer(text=text, outputs=outputs, usage=usage))


def make(state_dir: Path, turns: int, run: str = "long") -> str:
    """A finished run of so many turns in *state_dir*; its id."""
    plan = plan_of(turns)
    asyncio.run(launch.start(plan, {"prompt": "Write"}, state_dir=state_dir, run_id=run, turns=Answers(turns)))
    return run


def plan_of(turns: int) -> Any:
    """The plan of a run of so many turns."""
    return planning.as_plan(coterie.load(TEAM % turns))
