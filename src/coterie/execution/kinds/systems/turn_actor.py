"""An actor that answers by running a flow, a loop, a pattern, a model or a program."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from coterie.agents.actors.inputs import check_kept
from coterie.agents.actors.message import TURN, Message
from coterie.agents.actors.plain import plain
from coterie.agents.actors.process import AgentProcess
from coterie.errors import TurnFailure, UsageError
from coterie.history.journal.records import TurnCancelled, TurnFailed, TurnFinished
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.system import TurnActorPlan

TurnEnd = TurnFinished | TurnFailed | TurnCancelled
Say = Callable[[str, str], None]


class StartTurn(Protocol):
    """Runs an agent of the plan with an input, and passes on its texts meanwhile."""

    def __call__(self, agent: str, given: Mapping[str, Any], say: Say | None = None, /) -> Awaitable[TurnEnd]:
        """See `SystemHost.call`."""


class TurnActor(AgentProcess):
    """Answers each message with the result of a turn of the system's run.

    A payload that is a mapping is the input, whose `prompt` is the task; any other payload is the task itself. The
    reply's payload has `text`, `outputs` and `turn`. A failed turn is also a reply, and the actor stays alive.

    Args:
        plan: Its name is also that of the agent in the run's plan.
        call: Runs a turn and returns its end.
        agents: The agents of the system's run.
    """

    def __init__(self, plan: TurnActorPlan, call: StartTurn, agents: Mapping[str, AgentPlan] = {}) -> None:
        super().__init__(plan.name)
        self._call, self._agents = call, agents
        self._corrections: list[str] = []

    async def on_correction(self, message: Message) -> None:
        """Add the reason of a correction to the task of the next turn."""
        self._corrections.append(f"{message.payload['kind']}: {message.payload['reason']}")

    async def handle(self, message: Message) -> Message | None:
        """Run a turn and reply with its result.

        Raises:
            TurnFailure: If the turn failed, or the payload cannot be written as JSON, or would be read as another one.
        """
        try:
            given = plain(values := _input(message), "the payload")
            if (agent := self._agents.get(self.name)) is not None and agent.child is not None:
                check_kept(agent.child, values, given)
        except (ValueError, UsageError) as error:
            raise TurnFailure("failed", f"{self.name}: {error}") from None
        if self._corrections:
            given = {**given, "prompt": "\n\n".join((str(given.get("prompt", "")), *self._corrections))}
            self._corrections = []
        ended = await self._call(self.name, given, self._stream_to(message) if message.stream else None)
        match ended:
            case TurnFinished():
                return self.reply({"text": ended.text, "outputs": ended.outputs, "turn": ended.turn})
            case TurnFailed():
                why = f": {ended.reason}" if ended.reason else ""
                raise TurnFailure(ended.kind, f"{ended.turn} failed ({ended.kind}){why}")
            case TurnCancelled():
                raise TurnFailure("interrupted", f"{ended.turn} was cancelled: {ended.reason}")

    def _stream_to(self, message: Message) -> Say:
        return lambda attempt, text: self.give_piece(message, {"attempt": attempt, "text": text})


def _input(message: Message) -> Mapping[str, Any]:
    payload = message.payload
    if not isinstance(payload, Mapping):
        return {"prompt": "" if payload is None else str(payload)}
    if message.type == TURN:  # other attempts of the turn ask the same, and get the turn that one of them began
        return {name: value for name, value in payload.items() if name != "turn"}
    return payload
