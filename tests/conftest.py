"""What every test gets: a home of its own, so that no test reads or writes the user's."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("coterie", derandomize=True, deadline=None)  # the same examples every time, on any machine
settings.load_profile("coterie")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory for the per-user index, shared by the subprocesses of a test."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home
