"""Runs for the page to show, and tests that are coroutines."""

import asyncio
import inspect
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from command_line import Place, make
from page_runs import ASKS, FAILS, played
from stage import flow

from coterie.execution.runs.repository import Runs
from coterie.interfaces.ui.places import ServedRun


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine to its end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class EndingPlace(Place):
    """A place whose processes do not outlive the test."""

    processes: "ClassVar[list[subprocess.Popen[str]]]" = []

    def start(self, *words: str, **options: object) -> "subprocess.Popen[str]":
        self.processes.append(process := super().start(*words, **options))
        return process


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A folder with small teams."""
    make(tmp_path)
    yield EndingPlace(tmp_path)
    for process in EndingPlace.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    EndingPlace.processes.clear()


@pytest.fixture
def at_rest(place: Place) -> tuple[Path, str]:
    """A run that waits for a person and that no process drives: its state directory, and its id."""
    place.call("run", "human.at", status=4)
    [run] = Runs(state_dir := place.folder / ".coterie").list()
    return state_dir, run


@pytest.fixture
def asks(tmp_path: Path) -> ServedRun:
    """A run that waits for the answer of `boss`."""
    return played(tmp_path / "state", ASKS)


@pytest.fixture
def failed(tmp_path: Path) -> ServedRun:
    """A run whose second turn has failed."""
    return played(tmp_path / "state", flow("a -> b"), "r2", FAILS)
