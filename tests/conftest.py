"""What every test gets: a home of its own, so that no test reads or writes the user's."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process that the tests start would compile everything anew
sys.dont_write_bytecode = False

settings.register_profile("coterie", derandomize=True, deadline=None)  # the same examples every time, on any machine
settings.load_profile("coterie")


@pytest.fixture(autouse=True, scope="session")
def no_home_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the fixtures of a module or a session find, which are made before a test has a home of its own."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory for the per-user index, and one for settings, shared by the subprocesses of a test."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    monkeypatch.delenv("AUTOLOOP_CONFIG", raising=False)
    return home


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests marked `long` out, unless a marker expression chose what to run."""
    if config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("long") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
