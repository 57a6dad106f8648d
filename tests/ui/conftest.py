"""Runs for the page to show, and tests that are coroutines."""

import asyncio
import inspect
from pathlib import Path

import pytest
from command_line import Place, make

from coterie.runs.repository import Runs


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine to its end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with small teams."""
    return make(tmp_path)


@pytest.fixture
def at_rest(place: Place) -> tuple[Path, str]:
    """A run that waits for a person and that no process drives: its state directory, and its id."""
    place.call("run", "human.at", status=4)
    [run] = Runs(state_dir := place.folder / ".coterie").list()
    return state_dir, run
