from pathlib import Path

import pytest
from command_line import Place, make


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with teams, and `coterie` called in it; `COLUMNS` keeps lines whole."""
    monkeypatch.setenv("COLUMNS", "120")
    return make(tmp_path)
