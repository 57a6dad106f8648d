"""Spans of runs and actors for tracing systems, folded from records.

The ids of spans are derived from those of runs and turns. So a resumed run continues its trace, and a child run is
below the attempt that started it, whichever process exports them.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from coterie.base.ids import attempt_id
from coterie.history.journal import records as r

SpanKind = Literal["internal", "client", "consumer"]
_Ended = r.AttemptFailed | r.AttemptInterrupted | r.TurnFinished | r.TurnFailed | r.TurnCancelled


class TraceSpan(Struct, frozen=True, kw_only=True):
    """A piece of work with a beginning and an end.

    Attributes:
        trace_id: The same for all spans of one trace; any text.
        span_id: Unique in its trace; any text.
        parent_id: The span that caused this one; empty: none.
        start: Unix seconds.
        end: Unix seconds.
        attributes: Texts, numbers and booleans, named by OpenTelemetry's conventions.
        error: Why the work failed; empty if it did not.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    kind: SpanKind = "internal"
    start: float = 0.0
    end: float = 0.0
    attributes: dict[str, Any] = {}
    error: str = ""


class RunSpans:
    """Folds the records of a run and of its child runs to spans: one for each owner of a run, one for each attempt, and
    one for each request that a model has answered in it.

    The usage of requests has other names than that of attempts, which includes it: a sum counts it once.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._models: dict[str, dict[str, str]] = {}
        self._owners: dict[str, tuple[str, float]] = {}
        self._began: dict[tuple[str, str], r.TurnStarted] = {}
        self._links: dict[tuple[str, str], tuple[str, str]] = {}
        self._traces: dict[str, str] = {}
        self._answered: dict[tuple[str, str], float] = {}

    def link(self, run: str, turn: str, trace_id: str, parent_id: str) -> None:
        """Add *turn* of *run*, which has not begun, to the trace of the span that requested it."""
        self._links[run, turn] = trace_id, parent_id

    def trace_of(self, place: str) -> str:
        """The trace of a run or of an attempt, by its id."""
        above = place
        while above:
            if above in self._traces:
                return self._traces[above]
            above = above.rpartition("/")[0]
        return place.partition("/")[0]

    def step(self, run: str, record: r.Record) -> Iterator[TraceSpan]:
        """The spans that end with *record* of *run*; call it with the records in order."""
        match record:
            case r.RunStarted():
                self._names[run] = record.topology
                self._models[run] = _models(record.plan)
                self._owners[run] = f"{run}@1", record.at
            case r.RunOwned():
                began = self._owners[run][1] if record.epoch == 1 and run in self._owners else record.at
                self._owners[run] = f"{run}@{record.epoch}", began
            case r.TurnStarted():
                self._began[run, record.turn] = record
                if (run, record.turn) in self._links:
                    self._traces[f"{run}/{attempt_id(record.turn, record.attempt)}"] = self._links[run, record.turn][0]
            case r.AttemptStep():
                yield from self._request(run, record)
            case r.AttemptFailed():
                yield from self._attempt(run, record, record.usage, record.kind, record.reason)
            case r.AttemptInterrupted():
                yield from self._attempt(run, record, r.NO_USAGE, "interrupted", record.reason)
            case r.TurnFinished():
                yield from self._attempt(run, record, record.usage)
            case r.TurnFailed():
                yield from self._attempt(run, record, r.NO_USAGE, record.kind, record.reason)
            case r.TurnCancelled():
                yield from self._attempt(run, record, record.usage, "cancelled", record.reason)
            case r.RunFinished():
                failed = record.outcome != "completed"
                yield from self._owned(run, record, record.outcome, record.reason if failed else "")
            case r.RunStopped():
                yield from self._owned(run, record, f"stopped: {record.reason}", "")
        if isinstance(record, r.TurnFinished | r.TurnFailed | r.TurnCancelled):
            self._links.pop((run, record.turn), None)

    def _request(self, run: str, record: r.AttemptStep) -> Iterator[TraceSpan]:
        """The request of a model, from the answer before it, or the beginning of its attempt."""
        key = (run, record.turn)
        if (began := self._began.get(key)) is None:
            return
        attempt, model = f"{run}/{attempt_id(record.turn, record.attempt)}", self._models.get(run, {}).get(began.agent)
        yield TraceSpan(
            name=f"chat {model}" if model else "chat",
            trace_id=self.trace_of(attempt),
            span_id=f"{attempt}/{record.n}",
            parent_id=attempt,
            kind="client",
            start=self._answered.get(key, began.at),
            end=record.at,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.conversation.id": run.partition("/")[0],
                "coterie.request.number": record.n,
                "coterie.request.tools": ", ".join(record.calls),
                "coterie.request.input_tokens": record.usage.input_tokens,
                "coterie.request.output_tokens": record.usage.output_tokens,
                "coterie.request.cost_usd": record.usage.cost,
            }
            | ({"gen_ai.request.model": model} if model else {}),
        )
        self._answered[key] = record.at

    def _attempt(
        self, run: str, record: _Ended, usage: r.Usage, error_type: str = "", reason: str = ""
    ) -> Iterator[TraceSpan]:
        turn = record.turn
        began = self._began.pop((run, turn), None)
        self._answered.pop((run, turn), None)
        if began is None:  # the attempt has already ended, or an earlier owner exported it
            return
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": began.agent,
            "gen_ai.conversation.id": run.partition("/")[0],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "coterie.run": run,
            "coterie.turn": turn,
            "coterie.attempt": began.attempt,
            "coterie.usage.cost_usd": usage.cost,
        }
        if model := self._models.get(run, {}).get(began.agent):
            attributes["gen_ai.request.model"] = model
        span_id = f"{run}/{attempt_id(turn, began.attempt)}"
        _, asker = self._links.get((run, turn), ("", ""))
        yield TraceSpan(
            name=f"invoke_agent {began.agent}",
            trace_id=self.trace_of(span_id),
            span_id=span_id,
            parent_id=asker or self._owners.get(run, (run, 0.0))[0],
            start=began.at,
            end=record.at,
            attributes=attributes | ({"error.type": error_type} if error_type else {}),
            error=f"{error_type}: {reason}" if error_type else "",
        )
        self._traces.pop(span_id, None)

    def _owned(self, run: str, record: r.Record, outcome: str, error: str) -> Iterator[TraceSpan]:
        span_id, start = self._owners.pop(run, (f"{run}@", record.at))
        name = self._names.pop(run, "")
        self._models.pop(run, None)
        yield TraceSpan(
            name=f"invoke_workflow {name}".rstrip(),
            trace_id=self.trace_of(run),
            span_id=span_id,
            parent_id=run if "/" in run else "",  # a child run has the id of its attempt
            start=start,
            end=record.at,
            attributes={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": name,
                "gen_ai.conversation.id": run.partition("/")[0],
                "coterie.run": run,
                "coterie.outcome": outcome,
            },
            error=error,
        )


class ActorSpans:
    """Folds the records of actors to spans: one for each incarnation, and one without length for each event.

    Args:
        trace_id: The trace of the system.
    """

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id
        self._began: dict[str, tuple[r.ActorStarted, float]] = {}
        self._events = 0

    def step(self, record: r.Record, at: float) -> Iterator[TraceSpan]:
        """The spans that end with *record*, which was made at *at*, in Unix seconds."""
        about: dict[str, Any]
        match record:
            case r.ActorStarted():
                self._began[record.name] = record, at
            case r.ActorStopped():
                yield from self._incarnation(record.name, at, {"coterie.agent.ended": record.reason}, record.error)
            case r.ActorCrashed():
                about = {"coterie.agent.ended": "crashed", "coterie.agent.during": record.during}
                if record.message:
                    about["coterie.message.id"] = record.message
                about["error.type"] = record.error.partition(":")[0]
                yield from self._incarnation(record.name, at, about, record.error)
            case r.RestartPlanned():
                about = {"coterie.supervisor": record.supervisor, "coterie.restart.delay": record.delay}
                yield self._event(f"restart {record.name}", at, about | {"coterie.restart.count": record.count})
            case r.SupervisorFailed():
                about = {"coterie.supervisor": record.name, "coterie.restart.limit": record.restarts}
                yield self._event(f"give up {record.name}", at, about, record.reason or "too many restarts")
            case r.LetterDead():
                about = {"coterie.message.id": record.id, "coterie.message.sender": record.sender}
                about |= {"messaging.destination.name": record.recipient, "messaging.batch.message_count": record.count}
                yield self._event(f"dead letter {record.recipient}", at, about, record.detail or record.reason)
            case r.EvalReported():
                payload = msgspec.json.encode(record.payload).decode()
                about = {"gen_ai.agent.name": record.agent, "coterie.eval.type": record.type}
                yield self._event(f"eval {record.type}", at, about | {"coterie.eval.payload": payload})
            case r.CorrectionSent() | r.CorrectionDropped():
                about = {"gen_ai.agent.name": record.agent, "coterie.eval.agent": record.evaluator}
                about |= {"coterie.correction.kind": record.kind, "coterie.correction.reason": record.reason}
                problem = record.problem if isinstance(record, r.CorrectionDropped) else ""
                yield self._event(f"correct {record.agent}", at, about, problem)

    def _incarnation(self, name: str, at: float, about: dict[str, Any], error: str) -> Iterator[TraceSpan]:
        if (began := self._began.pop(name, None)) is None:
            return
        record, start = began
        yield TraceSpan(
            name=f"{record.kind} {name}",
            trace_id=self._trace_id,
            span_id=f"{name}#{record.incarnation}",
            start=start,
            end=at,
            attributes={
                "gen_ai.agent.name": name,
                "coterie.agent.incarnation": record.incarnation,
                "coterie.agent.path": record.path,
                "coterie.agent.type": record.type,
            }
            | about,
            error=error,
        )

    def _event(self, name: str, at: float, about: dict[str, Any], error: str = "") -> TraceSpan:
        self._events += 1
        span_id = f"{name}!{self._events}"
        return TraceSpan(
            name=name, trace_id=self._trace_id, span_id=span_id, start=at, end=at, attributes=about, error=error
        )


def _models(plan: str) -> dict[str, str]:
    """The model of each agent in the JSON text of a plan."""
    if not plan:
        return {}
    try:
        agents = msgspec.json.decode(plan).get("agents", {})
        return {name: str(one.get("model", "")) for name, one in agents.items()}
    except (AttributeError, msgspec.DecodeError):
        return {}
