"""Export spans to an OpenTelemetry collector, over HTTP.

A thread sends them, so neither a slow nor a dead collector holds anything up.
"""

import asyncio
import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coterie.actors.plugins.configured import Configured
from coterie.actors.plugins.reports import report
from coterie.errors import ExtraMissing, PluginError
from coterie.views.spans import TraceSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_LINGER = 0.5
"""Seconds for which spans are collected before they are sent."""
_BATCH = 512
_LAST = 0.8
"""Seconds that closing waits for the last spans to be sent."""
_KEPT = 10_000
"""Spans that wait; further ones are dropped."""


class OtlpExporter(Configured):
    """Sends spans to an OpenTelemetry collector over HTTP; the names of attributes are those of its GenAI conventions.

    The variables of OpenTelemetry hold: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS` (for keys),
    `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`. Spans that cannot be sent are dropped, and a line on standard error
    says so. Closing takes less than a second, whatever the collector does.

    Args:
        endpoint: The address of the collector, `http://localhost:4318`; `/v1/traces` is added if it has no path.
        service_name: By default `coterie`.
        timeout: Seconds that a request may take.
    """

    def __init__(self, endpoint: str = "", *, service_name: str = "", timeout: float = 10.0) -> None:
        if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
            reason = f"endpoint {endpoint!r} does not begin with http:// or https://"
            raise PluginError("exporter", "otlp", reason, place="endpoint")
        self._endpoint, self._service, self._timeout = endpoint, service_name, timeout
        self._waiting: deque[TraceSpan] = deque()
        self._given = self._sent = 0  # the one counts for the loop, the other for the thread
        self._news, self._is_closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._sender: Any = None
        self._gave_up = False
        self._ended: asyncio.Future[None] | None = None

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

    def check(self) -> None:
        """See that it can be used; a collector that is away is no reason not to start.

        Raises:
            ExtraMissing: If the library is not installed.
        """
        self.check_installed()

    def export(self, spans: Sequence[TraceSpan]) -> None:
        """Have *spans* sent soon."""
        if self._thread is None:
            self._start()
        room = _KEPT - len(self._waiting)
        self._waiting.extend(spans[: max(room, 0)])
        self._given += len(spans)
        self._news.set()

    async def close(self) -> None:
        """Send the last spans, if that is possible at once."""
        if self._thread is None or self._ended is None:
            return
        ended, self._thread = self._ended, None
        self._is_closing.set()
        self._news.set()
        try:
            await asyncio.wait([ended], timeout=_LAST)
        finally:  # cancelled, too: on a slow machine that took too long
            self._gave_up = not ended.done()
            if lost := self._given - self._sent:
                report(f"{lost} spans were not sent to {self._address}")
            if self._gave_up and (sender := self._sender) is not None:
                await asyncio.to_thread(sender.shutdown)  # the request in hand is not tried again

    @property
    def _address(self) -> str:
        return self._endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"

    def _start(self) -> None:
        self.check_installed()
        self._is_closing.clear()
        self._gave_up = False
        loop = asyncio.get_running_loop()
        ended = self._ended = loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def run() -> None:
            try:
                self._send_all()
            except Exception as error:  # a defect of the library: the system goes on without spans
                report(f"exporting spans failed: {type(error).__name__}: {error}")
            if not loop.is_closed():
                loop.call_soon_threadsafe(end)

        self._thread = threading.Thread(target=run, name="coterie-otlp", daemon=True)
        self._thread.start()

    def _send_all(self) -> None:
        """Send spans until the exporter is closed and none is left."""
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # else its warnings are printed
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        path = "" if urlsplit(self._endpoint).path.strip("/") else "/v1/traces"
        sender: Any = OTLPSpanExporter(  # half of it has no types
            endpoint=self._endpoint.rstrip("/") + path if self._endpoint else None, timeout=self._timeout
        )
        self._sender = sender
        translate = _Translator(self._service)
        has_failed = False
        while (self._waiting and not self._gave_up) or not self._is_closing.is_set():
            self._news.wait()
            self._news.clear()
            self._is_closing.wait(_LINGER)
            while self._waiting and not self._gave_up:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                if sender.export([translate(span) for span in batch]) is SpanExportResult.SUCCESS:
                    self._sent += len(batch)
                elif not has_failed and not self._is_closing.is_set():
                    has_failed = True
                    report(f"the collector at {self._address} takes no spans: they are dropped")
        self._sender = None
        sender.shutdown()


class _Translator:
    """Makes spans of OpenTelemetry."""

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
    """The id of OpenTelemetry for *text*: the number it writes in hexadecimal if that fits, else a hash of it."""
    digits = bits // 4
    if len(text) in (16, digits) and len(text) <= digits:
        try:
            return int(text, 16) or 1
        except ValueError:
            pass
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=bits // 8).digest()) or 1
