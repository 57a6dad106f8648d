"""A server on loopback that answers every request with one raw answer, which may have no end."""

import socket
import threading
from collections.abc import Callable, Iterable

from asking_models import MODELS

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


class HostileServer:
    """Sends the pieces of *body* after *head*, as they are, until they end or the client goes away.

    Attributes:
        sent: Bytes of the bodies that were sent.
        left: Set when a client went away before the end.
    """

    def __init__(self, body: Callable[[], Iterable[bytes]], head: bytes = HEAD) -> None:
        self._body, self._head = body, head
        self.sent, self.requests, self.left = 0, 0, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a provider's client calls this server."""
        url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        keys = {f"{api.upper()}_API_KEY": "key-of-the-test" for api in MODELS}
        return keys | {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}

    def __enter__(self) -> "HostileServer":
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                _read_request(connection)
                self.requests += 1
                connection.sendall(self._head)
                for piece in self._body():
                    connection.sendall(piece)
                    self.sent += len(piece)
            except OSError:
                self.left.set()


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65_536)
