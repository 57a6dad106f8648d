"""Agents that observe events of other agents and correct these agents.

Events and corrections are messages addressed by name, so the observed agents may live in any process. Eval agents live
in the process of the supervisor, which carries out a halt.
"""

import inspect
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from coterie.agents.actors.message import Message
from coterie.agents.actors.plain import plain
from coterie.agents.actors.process import AgentProcess
from coterie.errors import ActorError
from coterie.history.journal.records import CorrectionDropped, CorrectionSent
from coterie.team.planning.system import ChildPlan, EvalPlan, SupervisorPlan

CorrectionKind = Literal["nudge", "redirect", "halt"]


class EvalEvent(Struct, frozen=True, kw_only=True):
    """An event that an agent reported by `emit_eval`.

    Attributes:
        at: Unix seconds.
    """

    agent: str
    type: str
    payload: Any = None
    at: float = 0.0


class Correction(Struct, frozen=True, kw_only=True):
    """A correction of an agent by an eval agent.

    Attributes:
        kind: `nudge` is advice, `redirect` an order to do something else: both are passed to `on_correction` before the
            agent's next message. `halt` stops the agent for good, whatever its restart type.
        payload: Any JSON value, for `on_correction`.
        agent: The agent to correct; empty: the one that reported the event.
    """

    kind: CorrectionKind
    reason: str = ""
    payload: Any = None
    agent: str = ""


class CorrectionLimit:
    """Counts the corrections of each agent within a sliding window, in seconds of a monotonic clock."""

    def __init__(self, count: int, window: float) -> None:
        self.count, self.window = count, window
        self._sent: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def admits(self, agent: str, now: float) -> bool:
        """Whether *agent* may be corrected once more at *now*; if so, it is counted."""
        while self._sent and now - self._sent[0][0] >= self.window:
            _, past = self._sent.popleft()
            self._counts[past] -= 1
            if not self._counts[past]:
                del self._counts[past]
        if self._counts[agent] >= self.count:
            return False
        self._sent.append((now, agent))
        self._counts[agent] += 1
        return True


class EvalAgent(AgentProcess):
    """Observes the events that agents report by `emit_eval`, and corrects the agents.

        class Monitor(EvalAgent):
            async def on_eval_event(self, event):
                if event.type == "answer" and event.payload["words"] > 500:
                    return Correction(kind="nudge", reason="be brief")

    The corrections of one agent within a window are limited; further ones are recorded and dropped, except a halt. The
    limit holds across restarts of the eval agent.

    Args:
        max_corrections_per_window: The largest number of nudges and redirects of one agent within *window_seconds*.
    """

    def __init__(self, name: str, *, max_corrections_per_window: int = 10, window_seconds: float = 60.0) -> None:
        super().__init__(name)
        self.max_corrections_per_window = max_corrections_per_window
        self.window_seconds = window_seconds
        self._limit = CorrectionLimit(max_corrections_per_window, window_seconds)

    def keep_to(self, limit: CorrectionLimit) -> None:
        """Count corrections with *limit*, which earlier incarnations have used."""
        self.max_corrections_per_window, self.window_seconds, self._limit = limit.count, limit.window, limit

    async def on_eval_event(self, event: EvalEvent) -> Correction | None:
        """Judge one event; return a correction, or None."""
        return None

    async def observe(self, message: Message) -> None:
        """Pass the event in *message* to `on_eval_event`, and send the correction that it returns."""
        event = EvalEvent(**message.payload)
        given: Any = self.on_eval_event(event)
        correction = await given if inspect.isawaitable(given) else given
        if correction is None:
            return
        if not isinstance(correction, Correction):
            given = type(correction).__name__
            raise TypeError(f"on_eval_event of {self.name!r} returned {given}: return a Correction or None")
        await self.correct(correction, event.agent)

    async def correct(self, correction: Correction, agent: str = "") -> bool:
        """Send *correction* to its agent, else to *agent*; False, with a record, if it was dropped."""
        node, agent = self._child.node, correction.agent or agent
        if correction.kind not in ("nudge", "redirect", "halt"):
            raise ValueError(f"a correction is a nudge, a redirect or a halt, not {correction.kind!r}")
        about: dict[str, Any] = {"agent": agent, "kind": correction.kind, "reason": correction.reason}
        if wrong := [name for name, value in about.items() if not isinstance(value, str)]:
            raise TypeError(f"the {wrong[0]} of a correction must be a text, not {about[wrong[0]]!r}")
        is_halt = correction.kind == "halt"
        if not is_halt and not self._limit.admits(agent, node.loop.time()):
            limit = f"more than {self._limit.count} within {self._limit.window:g} s"
            node.sink(CorrectionDropped(evaluator=self.name, **about, problem=limit))
            return False
        about["payload"] = plain(correction.payload, f"the payload of a correction by {self.name!r}")
        node.sink(CorrectionSent(evaluator=self.name, **about))
        try:
            if is_halt:
                self._tree().halt(agent)
            else:
                await node.send_correction(agent, about, self.name)
        except ActorError as error:
            del about["payload"]
            node.sink(CorrectionDropped(evaluator=self.name, **about, problem=str(error)))
            return False
        return True


def evaluators(plan: SupervisorPlan) -> tuple[str, ...]:
    """The names of the eval agents below *plan*."""
    nodes: Iterable[ChildPlan] = plan.nodes()
    return tuple(node.name for node in nodes if isinstance(node, EvalPlan))
