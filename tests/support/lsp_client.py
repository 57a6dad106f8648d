"""A small client of the language server protocol, for tests: it starts the server and speaks to it."""

import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any


class Client:
    """An editor, as far as the server can tell.

    Attributes:
        folder: Where its documents lie.
        server: What the server said of itself.
        told: What the server said unasked and nobody has looked at yet.
        complaints: What it wrote on standard error, known at its end.
    """

    def __init__(self, folder: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "coterie", "topology", "lsp"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.folder = folder
        self._last = 0
        self.server: dict[str, Any] = {}
        self.told: deque[dict[str, Any]] = deque()
        self.complaints = b""

    def hello(self, *, snippets: bool = False) -> None:
        """Introduce ourselves."""
        capabilities = {"textDocument": {"completion": {"completionItem": {"snippetSupport": snippets}}}}
        self.server = self.ask("initialize", processId=None, rootUri=self.folder.as_uri(), capabilities=capabilities)
        self.tell("initialized")

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> dict[str, Any]:
        """Open a document and wait for what the server says of it."""
        document = {"uri": self.uri(name), "languageId": "agentopology", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return self.diagnostics(1)

    def change(self, name: str, version: int, *changes: dict[str, Any]) -> None:
        document = {"uri": self.uri(name), "version": version}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=list(changes))

    def at(self, method: str, name: str, line: int, character: int, **more: Any) -> Any:
        """Ask about a place in a document."""
        position = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": self.uri(name)}, position=position, **more)

    def diagnostics(self, version: int) -> dict[str, Any]:
        """What the server says of *version* of a document in the folder; what it said before is dropped."""
        while True:
            told = self.told.popleft() if self.told else self._read()
            if told.get("method") == "textDocument/publishDiagnostics":
                found: dict[str, Any] = told["params"]
                if found.get("version") == version and found["uri"].startswith(self.uri("")):
                    return found

    def ask(self, method: str, **params: Any) -> Any:
        """Ask, and return the answer.

        Raises:
            Refused: With the server's message, when that is an error.
        """
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params or None})
        while (message := self._read()).get("id") != self._last:
            self.told.append(message)
        if "error" in message:
            raise Refused(message["error"]["message"])
        return message["result"]

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def leave(self) -> tuple[int, bytes]:
        """Say goodbye; the server's exit status, and what it left unread on standard output."""
        self.ask("shutdown")
        self._send({"method": "exit"})
        out, self.complaints = self._server.communicate(timeout=30)
        return self._server.returncode, out

    def kill(self) -> None:
        self._server.kill()
        self._server.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(packed(message))
        self._server.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        length = 0
        while line := self._server.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the server is gone"
        message: dict[str, Any] = json.loads(self._server.stdout.read(length))
        return message


def packed(message: dict[str, Any]) -> bytes:
    """*message* as it is sent."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class Refused(Exception):
    """The server answered with an error."""
