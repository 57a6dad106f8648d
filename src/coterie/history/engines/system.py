"""A supervised system as an engine: its actors act by themselves, and each of their calls is a turn.

The engine only turns a call into a turn. It keeps no history: a system may run for months.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from coterie.base.ids import number_of
from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Reply
from coterie.history.engines.replies import judge_reply, no_events
from coterie.history.journal import records as r
from coterie.team.planning.plan import AgentPlan

DROPPED = "the actor that asked for it ended"
"""The reason of a turn that was cancelled with its actor."""


class SystemEngine:
    """The engine of a system.

    Args:
        agents: The agents that its actors may call, by name.

    Attributes:
        numbers: The number of each agent's latest turn.
    """

    name: ClassVar[str] = "system"
    version: ClassVar[int] = 1

    def __init__(self, agents: Mapping[str, AgentPlan]) -> None:
        self._agents = agents
        self._called: dict[str, str] = {}
        """The agents of the turns that have not ended."""
        self.numbers: dict[str, int] = {}

    def judge(self, said: Reply | Emit) -> r.Record:
        """A reply must have its agent's outputs; events are not allowed."""
        if isinstance(said, Reply):
            agent = self._agents.get(self._called.get(said.turn, ""))
            return judge_reply(said, agent.outputs if agent is not None else ())
        return no_events(said, "a system")

    def step(self, record: r.Record) -> Sequence[Command]:
        """Start or cancel the turn of a call."""
        match record:
            case r.CallAsked():
                self._called[record.turn] = record.agent
                self.numbers[record.agent] = number_of(record.turn)
                return [Ask(turn=record.turn, agent=record.agent, whole=record.given or {})]
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled():
                self._called.pop(record.turn, None)
                return ()
            case r.CallDropped():
                return [Cancel(turn=record.turn, reason=DROPPED)]
            case _:
                return ()
