"""Agents that may be steerable, and an operator who sends messages while they work."""

import asyncio
from collections.abc import Mapping, Sequence

from stage import Behaviour, Cast, Part, Stage

from coterie.agents.backends.base import OnEvent, Request
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.team.planning.plan import Plan


class Steered(Cast):
    """Agents that can be steered, if *can*; half a second into the first attempt of turn *at*, an operator's *words*.

    Args:
        after: Seconds until an agent has said that it takes up what it was given.

    Attributes:
        heard: The guidance they were given while they worked, with its turn.
    """

    def __init__(
        self,
        *words: RunMessage,
        can: bool = True,
        at: str = "iteration#1",
        after: float = 0.0,
        parts: Mapping[str, Sequence[Behaviour]] | None = None,
    ) -> None:
        super().__init__(parts or {})
        self._words, self._can, self._at, self._after = words, can, at, after
        self.heard: list[tuple[str, str]] = []
        self.verdicts: list[Verdict] = []
        self.stage: Stage

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        part = await super().start(request, on_event)

        async def steer(text: str) -> bool:
            await asyncio.sleep(self._after)
            self.heard += [(request.turn, text)] * self._can
            return self._can

        part.steer = steer  # type: ignore[method-assign]
        if (request.turn, request.attempt) == (self._at, 1):
            asyncio.get_running_loop().call_later(0.5, self.stage.shell.post, self._say_all)
        return part

    def _say_all(self) -> None:
        for message in self._words:
            self.say(message)

    def say(self, message: RunMessage) -> None:
        """Have *message* judged."""
        self.verdicts.append(take(self.stage.shell, message, self.stage.clock.now(), Sender("operator"))[1])


def steered(plan: Plan, cast: Steered) -> Stage:
    """A stage of *plan* with *cast*, played from the beginning."""
    cast.stage = stage = Stage(plan, cast)
    stage.start()
    return stage
