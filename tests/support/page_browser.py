"""`coterie ui` as its users have it: the command on a terminal, and Chromium with the page."""

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WITHIN = 60_000
"""Milliseconds within which the page gets into a state that a test waits for."""


def missing() -> str:
    """What a test in a real browser lacks here; empty: nothing."""
    if not CHROMIUM:
        return "Chromium is not on the PATH"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "Playwright is not installed: pip install playwright"
    return ""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    if why := missing():
        pytest.skip(f"needs a browser: {why}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(SWITCHES))
        try:
            yield browser
        finally:
            browser.close()


class ServedPage:
    """`coterie ui` in a folder, and pages of it; *errors* has what went wrong in them."""

    def __init__(self, browser: Any, folder: Path, *words: str) -> None:
        self.browser, self.folder, self._words = browser, folder, words
        self.errors: list[str] = []
        self.start()

    def start(self, *words: str) -> None:
        """Start the command on a terminal, which gets the address with a code."""
        self._terminal, terminal = pty.openpty()
        command = [sys.executable, "-m", "coterie", "ui", "--no-open", *(words or self._words)]
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.address = self.line(r"https?://\S+")

    def line(self, pattern: str, within: float = 60.0) -> str:
        """What comes next on the terminal that has this form."""
        said, until = "", time.monotonic() + within
        while not (found := re.search(pattern + r"(?=\s)", said)):
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the terminal has {said!r}"
            said += os.read(self._terminal, 65536).decode()
        return found[0]

    @property
    def base(self) -> str:
        """The address without code and path."""
        return self.address.partition("#")[0]

    def new_address(self) -> str:
        """A further address: what Enter on the terminal gives."""
        os.write(self._terminal, b"\n")
        return self.line(r"https?://\S+#code=\S+")

    def page(self, path: str = "", *, fresh: bool = True, script: str = "", **context: Any) -> Any:
        """A page at *path*, in a context of its own with a session of its own, where *script* runs first."""
        if fresh:
            self.context = self.browser.new_context(**context)
            self.context.set_default_timeout(WITHIN)
            self.context.add_init_script(script)
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console", lambda said: self.errors.append(f"{said.text} {said.location}") if said.type == "error" else None
        )
        page.goto(self.address if not path else f"{self.base}{path}#{self.address.partition('#')[2]}")
        page.locator("header .state.done", has_text="live").wait_for()
        self.address = self.new_address()
        return page

    def kill(self) -> None:
        """End the server at once."""
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def close(self) -> None:
        """End the server."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self._terminal)
