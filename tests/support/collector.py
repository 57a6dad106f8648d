"""An OpenTelemetry collector on loopback: takes spans over HTTP and decodes their protobuf."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Collector:
    """The server; a context manager.

    Args:
        status: What it answers.
        hold: Blocks each request, if given.
    """

    def __init__(self, status: int = 200, hold: threading.Event | None = None) -> None:
        self.requests: list[Any] = []
        self.arrived = threading.Event()
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._status, self._hold = status, hold
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> dict[str, Any]:
        """The spans that it took, by name."""
        return {span.name: span for _, span in self.placed}

    @property
    def placed(self) -> list[tuple[dict[str, Any], Any]]:
        """Each span with the attributes of its resource."""
        return [
            ({one.key: one.value.string_value for one in resource.resource.attributes}, span)
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def __enter__(self) -> "Collector":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(collector) -> type[BaseHTTPRequestHandler]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                collector.requests.append(request)
                collector.arrived.set()
                collector.paths.append(self.path)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector._hold is not None:
                    collector._hold.wait(60)
                try:
                    self.send_response(collector._status)
                    self.send_header("content-length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler
