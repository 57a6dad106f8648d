"""Make spans of messages, requests to models and calls of tools, and hand them to exporters."""

import inspect
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from coterie.agents.actors.message import IN_HAND, RUNTIME, TURN, Message
from coterie.agents.actors.plugins.base import Exporter
from coterie.agents.actors.plugins.reports import report
from coterie.agents.backends.secrets import Secrets
from coterie.base.clock import Clock, SystemClock
from coterie.base.user_code import contained
from coterie.errors import error_line
from coterie.history.journal.records import Record
from coterie.history.views.spans import ActorSpans, RunSpans, SpanKind, TraceSpan


class Tracer:
    """Passes spans to exporters; without exporters it does nothing.

    Spans are linked by the trace ids of messages: a request to a model is below the message that the agent handles,
    which is below the message that its sender was handling. Secrets are redacted in errors.
    """

    def __init__(self, exporters: Sequence[Exporter] = (), clock: Clock | None = None) -> None:
        self.exporters = tuple(exporters)
        self._clock = clock or SystemClock()
        self._failed: set[int] = set()
        self._hide = Secrets(os.environ).hide
        self._actors, self._runs = ActorSpans(secrets.token_hex(16)), RunSpans()

    def before(self, sink: Callable[[Record], None] | None) -> Callable[[Record], None]:
        """Wrap *sink* so that the spans of its records are exported as well."""

        def receive(record: Record) -> None:
            self.export(*self._actors.step(record, self._clock.now()))
            if sink is not None:
                sink(record)

        return receive

    def observe(self, run: str, record: Record) -> None:
        """Export the spans that end with *record* of *run*, the system's run or a child run."""
        if self.exporters:
            self.export(*self._runs.step(run, record))

    def link(self, run: str, turn: str) -> None:
        """Add *turn* of *run*, which has not begun, to the trace of the current message."""
        if self.exporters and (message := IN_HAND.get()) is not None:
            self._runs.link(run, turn, message.trace_id, message.span_id)

    def work_for(self, attempt: str) -> None:
        """Assign the messages that this task sends to *attempt* of a run, `<run>/<turn>.<attempt>`."""
        trace = self._runs.trace_of(attempt)
        IN_HAND.set(Message(id=attempt, type=TURN, sender=RUNTIME, recipient="", trace_id=trace))

    def handled(self, message: Message, began: float, error: BaseException | None) -> None:
        """Export the span of *message*, whose handling began at *began*, in Unix seconds, and ends now."""
        self.export(
            TraceSpan(
                name=f"process {message.recipient}",
                trace_id=message.trace_id,
                span_id=message.span_id,
                parent_id=message.parent_span_id or "",
                kind="consumer",
                start=began,
                end=self._clock.now(),
                attributes={
                    "messaging.system": "coterie",
                    "messaging.operation.name": "process",
                    "messaging.operation.type": "process",
                    "messaging.destination.name": message.recipient,
                    "messaging.message.id": message.id,
                    "gen_ai.agent.name": message.recipient,
                    "coterie.message.type": message.type,
                    "coterie.message.sender": message.sender,
                    "coterie.message.attempt": message.attempt,
                    "coterie.message.waited": max(began - message.sent_at, 0.0),
                }
                | error_type(error),
                error=error_line(error),
            )
        )

    @contextmanager
    def span(self, name: str, kind: SpanKind = "internal", **attributes: Any) -> Iterator[dict[str, Any]]:
        """Export a span for the block, below the current message; yield its attributes, which the block may extend."""
        said = {key.replace("__", "."): value for key, value in attributes.items()}
        if not self.exporters:
            yield said
            return
        message, began = IN_HAND.get(), self._clock.now()
        error: BaseException | None = None
        own = secrets.token_hex(8)
        try:
            yield said
        except BaseException as raised:
            error = raised
            raise
        finally:
            if message is not None:
                said["gen_ai.agent.name"] = message.recipient
            self.export(
                TraceSpan(
                    name=name,
                    trace_id=message.trace_id if message is not None else own,
                    span_id=own,
                    parent_id=message.span_id if message is not None else "",
                    kind=kind,
                    start=began,
                    end=self._clock.now(),
                    attributes=said | error_type(error),
                    error=error_line(error),
                )
            )

    def export(self, *spans: TraceSpan) -> None:
        """Pass *spans* to all exporters; one that raises an exception gets no more."""
        if not spans or not self.exporters:
            return
        spans = tuple(replace(span, error=self._hide(span.error)) if span.error else span for span in spans)
        for exporter in self.exporters:
            if id(exporter) in self._failed:
                continue
            try:
                with contained():
                    coroutine = exporter.export(spans)  # type: ignore[func-returns-value]
                if inspect.iscoroutine(coroutine):
                    coroutine.close()
                    raise TypeError("export must not be async: it hands spans over to a task or a thread")
            except Exception as error:  # a user's exporter must not end the agents that it watches
                self._failed.add(id(exporter))
                report(f"{type(exporter).__name__} failed and gets no more spans: {type(error).__name__}: {error}")


def error_type(error: BaseException | None) -> dict[str, str]:
    """The OpenTelemetry attribute for the class of an error."""
    return {} if error is None else {"error.type": type(error).__name__}
