"""`coterie topology validate`, with the parser of options and without it."""

from pathlib import Path

import pytest

from coterie.cli import app

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
def test_a_plain_call_says_what_a_parsed_one_says(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same lines on both streams, and the same status."""
    plain = app.main(["topology", "validate", *names]), capsys.readouterr()
    parsed = app.main(["topology", "validate", "--", *names]), capsys.readouterr()

    assert plain == parsed
    assert plain[0] == {"good.at": 0, "none.at": 2}.get(names[0], 1)


@pytest.mark.usefixtures("files")
def test_a_plain_call_waits_for_no_parser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and known options need none; an abbreviated option does, and so does a call without a file."""
    asked = []
    monkeypatch.setattr(app, "command", lambda words: asked.append(words) or (lambda **_: None))

    assert app.main(["topology", "validate", "good.at"]) == 0
    assert (capsys.readouterr().out, asked) == ("good.at: ok\n", [])
    app.main(["topology", "validate", "--js", "good.at"])
    app.main(["topology", "validate"])
    assert len(asked) == 2
