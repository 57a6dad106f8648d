"""Firefox without a driver: it speaks Marionette, JSON behind its length, on a port of its choice."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FIREFOX = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), "")
WITHIN = 120.0
"""Seconds within which the browser has begun, and the page is in a state that a test waits for."""
PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "app.update.auto": False,
}


class Firefox:
    """One window. Scripts are bodies of functions, whose value comes back."""

    def __init__(self, folder: Path) -> None:
        self._profile = folder / "profile"
        self._profile.mkdir()
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        (self._profile / "user.js").write_text("\n".join(lines))
        command = [FIREFOX, "--headless", "--no-remote", "--marionette", "--profile", str(self._profile)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._socket = self._connected()
        self._said = self._socket.makefile("rb")
        self._n = 0
        self._message()  # what it is
        self.call("WebDriver:NewSession", capabilities={})

    def _connected(self) -> socket.socket:
        port, until = self._profile / "MarionetteActivePort", time.monotonic() + WITHIN
        while time.monotonic() < until:
            assert self._process.poll() is None, "Firefox has ended"
            with contextlib.suppress(OSError, ValueError):
                return socket.create_connection(("127.0.0.1", int(port.read_text())), WITHIN)
            time.sleep(0.05)
        raise TimeoutError("Firefox does not listen")

    def _message(self) -> Any:
        size = b""
        while (one := self._said.read(1)) != b":":
            assert one, "Firefox has closed the connection"
            size += one
        return json.loads(self._said.read(int(size)))

    def call(self, name: str, **arguments: Any) -> Any:
        """The value of a command of WebDriver."""
        self._n += 1
        data = json.dumps([0, self._n, name, arguments]).encode()
        self._socket.sendall(b"%d:%s" % (len(data), data))
        _, _, error, value = self._message()
        assert error is None, error
        return value.get("value") if isinstance(value, dict) else value

    def open(self, address: str) -> None:
        """Go to *address*."""
        self.call("WebDriver:Navigate", url=address)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that *script* returns."""
        return self.call("WebDriver:ExecuteScript", script=script, args=arguments, newSandbox=False)

    def until(self, script: str, *arguments: Any) -> Any:
        """The first value of *script* that is true."""
        end = time.monotonic() + WITHIN
        while not (value := self.run(script, *arguments)):
            assert time.monotonic() < end, f"{script} on a page with {self.run('return document.body.innerText')!r}"
            time.sleep(0.05)
        return value

    def click(self, selector: str) -> None:
        """Click the first element that *selector* finds, once there is one."""
        self.until("const one = document.querySelector(arguments[0]); one?.click(); return Boolean(one);", selector)

    def close(self) -> None:
        """End it."""
        self._said.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A browser with a new profile below *folder*."""
    if not FIREFOX:
        pytest.skip("needs a browser: Firefox is not on the PATH (Debian: apt-get install firefox-esr)")
    found = Firefox(folder)
    try:
        yield found
    finally:
        found.close()
