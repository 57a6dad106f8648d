"""A provider of models on loopback that speaks two dialects: Anthropic's messages and OpenAI's chat completions.

What it says is scripted: each request takes the next reply, or a function chooses one from the request. It keeps every
request, and answers only who knows the random path that its address ends in, so a test that reaches another server
fails.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32


@dataclass(frozen=True)
class Say:
    """One answer of a model.

    Attributes:
        calls: Tools it calls, as (name, arguments); arguments as a text are sent as they are.
        hold: Waited for before the last piece is sent: `Event.wait`, or anything that blocks.
        drop: Break the connection off after this many pieces.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    stop: str = ""
    tokens: tuple[int, int] = (100, 20)
    cached: int = 0
    hold: Callable[[], object] | None = None
    drop: int | None = None


@dataclass(frozen=True)
class Refuse:
    """An answer with a status that is not 200."""

    status: int
    kind: str = "error"
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Send:
    """An answer as it is, whatever the dialect: with status 200, unless *headers* say where else to go.

    Attributes:
        size: The bytes that are written at once; 0: all.
        missing: Bytes that are promised and never sent, since the connection breaks off.
    """

    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    missing: int = 0


Reply = Say | Refuse | Send
Choose = Callable[[dict[str, Any]], Reply]


class FakeModels:
    """The server; a context manager.

    Args:
        replies: What it says, one after the other, the last repeating; or a function of the request's body.
        key: The API key it wants.
    """

    def __init__(self, *replies: Reply, choose: Choose | None = None, key: str = "key-of-the-test") -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.key = key
        self.dropped = threading.Event()
        """Set when a client went away before it had heard all."""
        self._replies, self._choose = list(replies), choose
        self._lock = threading.Lock()
        self._token = secrets.token_hex(8)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The base address; OpenAI's dialect wants `/v1` behind it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._token}"

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to be answered from here."""
        return {
            "ANTHROPIC_API_KEY": self.key,
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_API_KEY": self.key,
            "OPENAI_BASE_URL": f"{self.url}/v1",
        }

    def __enter__(self) -> "FakeModels":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        """The reply to one request, which is kept."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            n = len(self.requests)
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if given != self.key:
            return Refuse(401, "authentication_error", f"the key {given} is not known")
        if self._choose is not None:
            return self._choose(body)
        return self._replies[min(n, len(self._replies)) - 1]

    def dialect(self, path: str) -> "Dialect | None":
        """Who answers at *path*; nobody, unless it begins with the address's random part."""
        return {f"/{self._token}/v1/messages": anthropic, f"/{self._token}/v1/chat/completions": openai}.get(
            path.partition("?")[0]
        )


Dialect = Callable[[Say, dict[str, Any]], Iterator[tuple[str, dict[str, Any] | None]]]
"""Gives the events of a streamed answer: a name (or none) and the data; None as data is OpenAI's `[DONE]`."""


def text_of(body: dict[str, Any]) -> str:
    """All that the messages of a request say, for choosing a reply."""
    return json.dumps(body["messages"], ensure_ascii=False)


def anthropic(say: Say, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """A streamed message."""
    usage = {"input_tokens": say.tokens[0] - say.cached, "output_tokens": 1, "cache_read_input_tokens": say.cached}
    number = crc32(json.dumps(body, sort_keys=True).encode())
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    yield "message_start", {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if say.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(say.thinking)]
        deltas.append({"type": "signature_delta", "signature": "c2ln"})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if say.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(say.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for n, (name, arguments) in enumerate(say.calls):
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(as_json(arguments))]
        call = {"type": "tool_use", "id": f"call_{len(body['messages'])}_{n}", "name": name, "input": {}}
        blocks.append((call, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield "content_block_start", {"index": index, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    yield (
        "message_delta",
        {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": say.tokens[1]}},
    )
    yield "message_stop", {}


def openai(say: Say, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """A streamed chat completion."""
    head = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any] | None]:
        return "", head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(say.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(say.text):
        yield chunk({"content": piece})
    for n, (name, arguments) in enumerate(say.calls):
        call = {"index": n, "id": f"call_{len(body['messages'])}_{n}", "type": "function"}
        yield chunk({"tool_calls": [call | {"function": {"name": name, "arguments": ""}}]})
        for piece in pieces(as_json(arguments)):
            yield chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
    yield chunk({}, say.stop or ("tool_calls" if say.calls else "stop"))
    usage = {"prompt_tokens": say.tokens[0], "completion_tokens": say.tokens[1], "total_tokens": sum(say.tokens)}
    yield "", head | {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": say.cached}}}
    yield "", None


def pieces(text: str) -> list[str]:
    """*text* in a few pieces, as a model streams it."""
    size = max(1, -(-len(text) // 3))
    return [text[at : at + size] for at in range(0, len(text), size)]


def as_json(arguments: Mapping[str, Any] | str) -> str:
    """What a tool is called with."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _handler(models: FakeModels) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(ConnectionResetError):  # by a client whose answer broke off
                super().handle()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            dialect = models.dialect(self.path)
            if dialect is None:
                self._whole(Refuse(404, "not_found_error", "nobody answers here"))
                return
            reply = models.answer(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            match reply:
                case Refuse():
                    self._whole(reply)
                case Send():
                    kind = {"content-type": "text/event-stream"}
                    status = 307 if "location" in reply.headers else 200
                    self._send(status, kind | dict(reply.headers), reply.content, reply.size, reply.missing)
                case Say():
                    try:
                        self._stream(dialect, reply, body)
                    except (BrokenPipeError, ConnectionResetError):
                        models.dropped.set()
                        self.close_connection = True

        def _whole(self, refuse: Refuse) -> None:
            error = {"type": refuse.kind, "message": refuse.message, "code": refuse.kind}
            content = json.dumps({"type": "error", "error": error}).encode()
            self._send(refuse.status, {"content-type": "application/json", **refuse.headers}, content)

        def _send(
            self, status: int, headers: Mapping[str, str], content: bytes, size: int = 0, missing: int = 0
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content) + missing))
            self.end_headers()
            size = size or len(content) or 1
            try:
                for at in range(0, len(content), size):
                    self.wfile.write(content[at : at + size])
            except (BrokenPipeError, ConnectionResetError):
                models.dropped.set()
                self.close_connection = True
            self.close_connection |= missing > 0

        def _stream(self, dialect: Dialect, say: Say, body: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("set-cookie", "session=of-the-server")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            events = list(dialect(say, body))
            for n, (name, data) in enumerate(events):
                if n == say.drop:
                    self.close_connection = True
                    return
                if n == len(events) - 1 and say.hold is not None:
                    self._hold(say.hold)
                self._chunk(as_event(name, data))
            self.wfile.write(b"0\r\n\r\n")

        def _hold(self, hold: Callable[[], object]) -> None:
            """Wait, and see meanwhile whether the client is still there."""
            for _ in range(2000):
                if hold():
                    return
                self._chunk(b": still thinking\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


def as_event(name: str, data: dict[str, Any] | None) -> bytes:
    """One server-sent event."""
    if data is None:
        return b"data: [DONE]\n\n"
    if not name:
        return f"data: {json.dumps(data)}\n\n".encode()
    return f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode()
