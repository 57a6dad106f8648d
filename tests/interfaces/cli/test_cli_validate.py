"""`coterie topology validate`, in both of its names."""

from pathlib import Path

import pytest
from command_line import Place

from coterie.interfaces.cli import app

TEAM = "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"
WRONG = "topology t : [pipeline] { agent a { model: m } flow { a -> b } }"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.at").write_text(TEAM)
    Path("bad.at").write_text(WRONG)
    return tmp_path


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("names", [["good.at"], ["bad.at"], ["bad.at", "good.at"], ["none.at"]], ids="-".join)
def test_the_short_form_says_what_the_long_one_says(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same lines on both streams, and the same status."""
    short = app.main(["validate", *names]), capsys.readouterr()
    long = app.main(["topology", "validate", "--", *names]), capsys.readouterr()

    assert short == long
    assert short[0] == {"good.at": 0, "none.at": 2}.get(names[0], 1)


def test_a_team_without_classes_is_valid_with_import_too(place: Place) -> None:
    """Only a supervised system has classes to import."""
    assert place.look("validate", "--import", "loop.at").out == place.look("validate", "loop.at").out
