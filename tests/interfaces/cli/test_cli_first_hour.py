"""What a newcomer meets in the first hour: a program that is not there, a narrow terminal, a team without a flow."""

from pathlib import Path

import pytest
from command_line import make

TEAM = 'topology t : [pipeline] {{ agent a {{ extensions {{ coterie {{ command: ["{0}"] }} }} }} flow {{ a }} }}\n'


def test_validate_names_a_program_that_is_not_on_the_path(tmp_path: Path) -> None:
    """The file is valid, since another machine may have it. Paths and placeholders are left alone."""
    place = make(tmp_path)
    for name, program in {"gone": "no-such-program", "here": "sh", "path": "./agent", "made": "{here}/agent"}.items():
        (tmp_path / f"{name}.at").write_text(TEAM.format(program))

    said = place.look("validate", "gone.at")
    assert said.out == "gone.at: ok\n"
    assert "note[program-not-here]" in said.err
    assert "the program 'no-such-program' is not on the PATH yet; a will need it" in said.err
    assert [place.look("validate", f"{name}.at").err for name in ("here", "path", "made")] == ["", "", ""]


def test_a_list_of_runs_fits_the_columns_that_are_demanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a pipe, where a reader's own width is known by COLUMNS alone; --wide keeps all."""
    place = make(tmp_path)
    place.call("run", "human.at", "A prompt that is long enough to be cut ", status=4)

    monkeypatch.setenv("COLUMNS", "80")
    narrow = place.look("runs").out.splitlines()
    wide = place.look("runs", "--wide").out.splitlines()
    assert max(map(len, narrow)) <= 80
    assert max(map(len, wide)) > 80
