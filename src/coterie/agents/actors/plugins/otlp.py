"""Export spans to an OpenTelemetry collector over HTTP.

The batch processor of OpenTelemetry sends them in a thread, so a slow or dead collector delays nothing.
"""

import asyncio
import hashlib
import logging
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coterie.agents.actors.plugins.configured import Configured
from coterie.agents.actors.plugins.reports import report
from coterie.errors import ExtraMissing, PluginError, error_line
from coterie.history.views.spans import TraceSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_LINGER = 0.5
"""Seconds for which spans are collected before they are sent."""
_BATCH = 512
_LAST = 0.8
"""Seconds that `close` waits for the last spans to be sent."""
_KEPT = 10_000
"""The largest number of waiting spans; beyond it the oldest are dropped."""


class OtlpExporter(Configured):
    """Sends spans to an OpenTelemetry collector over HTTP, with attributes named by OpenTelemetry's GenAI conventions.

    OpenTelemetry's environment variables apply: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS` (for keys),
    `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`. Spans that cannot be sent are dropped, with a line on standard
    error. Closing takes less than a second, whatever the collector does.

    Args:
        endpoint: The address of the collector, `http://localhost:4318`; `/v1/traces` is added if it has no path.
        service_name: The name of the service, by default `coterie`.
        timeout: The time-out of a request in seconds.
    """

    def __init__(self, endpoint: str = "", *, service_name: str = "", timeout: float = 10.0) -> None:
        if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
            reason = f"endpoint {endpoint!r} does not begin with http:// or https://"
            raise PluginError("exporter", "otlp", reason, place="endpoint")
        self._endpoint, self._service, self._timeout = endpoint, service_name, timeout
        self._given = 0
        self._sender: _CountedSender | None = None
        self._processor: Any = None
        self._translate: _Translator

    def check_installed(self) -> None:
        """See that the library is installed.

        Raises:
            ExtraMissing: If it is not.
        """
        try:
            found = find_spec("opentelemetry.exporter.otlp.proto.http")
        except ModuleNotFoundError:
            found = None
        if found is None:
            library = "opentelemetry-exporter-otlp-proto-http"
            raise ExtraMissing("otel", library, "the exporter plugin 'otlp'")

    check = check_installed  # an unreachable collector must not prevent the start

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Queue *spans* for sending."""
        if self._sender is None:
            self._start()
        for span in spans:
            self._processor.on_end(self._translate(span))
        self._given += len(spans)

    async def close(self) -> None:
        """Send the last spans, if that is possible at once."""
        sender, self._sender = self._sender, None
        if sender is None:
            return
        loop = asyncio.get_running_loop()
        processor, sender.is_closing, ended = self._processor, True, asyncio.Event()

        def end() -> None:
            processor.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=end, name="coterie-otlp", daemon=True).start()
        try:
            async with asyncio.timeout(_LAST):
                await ended.wait()
        except TimeoutError:
            pass
        finally:  # also after a cancellation: on a slow machine this took too long
            if lost := self._given - sender.sent:
                report(f"{lost} spans were not sent to {self._address}")
            self._given = 0
            if not ended.is_set():
                await asyncio.to_thread(sender.shutdown)  # the current request is not retried

    @property
    def _address(self) -> str:
        return self._endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"

    def _start(self) -> None:
        self.check_installed()
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # otherwise its warnings are printed
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        path = "" if urlsplit(self._endpoint).path.strip("/") else "/v1/traces"
        endpoint = self._endpoint.rstrip("/") + path if self._endpoint else None
        exporter: Any = OTLPSpanExporter(endpoint=endpoint, timeout=self._timeout)  # half of the library has no types
        sender = _CountedSender(exporter, self._address)
        self._translate = _Translator(self._service)
        self._processor = BatchSpanProcessor(
            sender,  # type: ignore[arg-type]
            max_queue_size=_KEPT,
            schedule_delay_millis=_LINGER * 1000,
            max_export_batch_size=_BATCH,
        )
        self._sender = sender


class _CountedSender:
    """An exporter of OpenTelemetry that counts what it has sent, and reports the first failure."""

    def __init__(self, exporter: Any, address: str) -> None:
        self._exporter, self._address = exporter, address
        self.sent = 0
        self.is_closing = self._has_failed = False

    def export(self, spans: Sequence["ReadableSpan"]) -> Any:
        """Send *spans*."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        problem = f"the collector at {self._address} takes no spans: they are dropped"
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # a bug of the library: the system continues without spans
            result, problem = SpanExportResult.FAILURE, f"exporting spans failed: {error_line(error)}"
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        elif not self._has_failed and not self.is_closing:
            self._has_failed = True
            report(problem)
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()


class _Translator:
    """Converts spans to those of OpenTelemetry."""

    def __init__(self, service: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        named = {"service.name": service or "coterie"} if service or not os.environ.get("OTEL_SERVICE_NAME") else {}
        self._resource = Resource.create(named)
        self._scope = InstrumentationScope("coterie")

    def __call__(self, span: TraceSpan) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: str) -> Any:
            trace, own = number(span.trace_id, 128), number(span_id, 64)
            return SpanContext(trace, own, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=context(span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind[span.kind.upper()],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=round(span.start * 1e9),
            end_time=round(span.end * 1e9),
            instrumentation_scope=self._scope,
        )


def number(text: str, bits: int) -> int:
    """The OpenTelemetry id for *text*: its value as a hexadecimal number if that fits, else a hash of it."""
    digits = bits // 4
    if len(text) in (16, digits) and len(text) <= digits:
        try:
            return int(text, 16) or 1
        except ValueError:
            pass
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=bits // 8).digest()) or 1
