import io
import stat
from pathlib import Path

import pytest

from coterie.interfaces.cli import app

ROUGH = "topology t:[pipeline]{agent a{model:m}\nflow{a->a[max 2]}} # done"
LAID_OUT = """\
topology t : [pipeline] {
  agent a { model: m }
  flow { a -> a  [max 2] }
}  # done
"""
BROKEN = "topology t : [pipeline] {\n  agent a { model m }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"rough.at": ROUGH, "good.at": LAID_OUT, "in/rough.at": ROUGH, ".git/rough.at": ROUGH}.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    Path("in/notes.txt").write_text(ROUGH)
    return tmp_path


def test_files_are_laid_out_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that change are named; a second time nothing is to be done."""
    assert app.main(["topology", "fmt", "rough.at", "good.at"]) == 0

    told = capsys.readouterr()
    assert told.out == "rough.at: changed\n"
    assert told.err == "1 file changed, 1 file unchanged\n"
    assert Path("rough.at").read_text() == LAID_OUT
    assert app.main(["topology", "fmt", "rough.at", "good.at"]) == 0
    assert capsys.readouterr().err == "2 files unchanged\n"


def test_a_folder_means_all_the_teams_below(capsys: pytest.CaptureFixture[str]) -> None:
    """What is hidden, and what is no team, is left alone."""
    assert app.main(["topology", "fmt", ".", "rough.at"]) == 0

    assert capsys.readouterr().out == "in/rough.at: changed\nrough.at: changed\n"
    assert Path(".git/rough.at").read_text() == Path("in/notes.txt").read_text() == ROUGH
    assert sorted(path.name for path in Path().iterdir()) == [".git", "good.at", "in", "rough.at"]


def test_a_check_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Its status says whether something would change."""
    assert app.main(["topology", "fmt", "--check", "rough.at", "good.at"]) == 1

    told = capsys.readouterr()
    assert (told.out, told.err) == ("rough.at: would change\n", "1 file would change, 1 file unchanged\n")
    assert Path("rough.at").read_text() == ROUGH
    assert app.main(["topology", "fmt", "--check", "good.at"]) == 0


def test_a_difference_is_shown_as_people_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, and nothing is written."""
    assert app.main(["topology", "fmt", "--diff", "rough.at"]) == 1

    assert capsys.readouterr().out.splitlines()[:4] == [
        "--- rough.at now",
        "+++ rough.at formatted",
        "@@ -1,2 +1,4 @@",
        "-topology t:[pipeline]{agent a{model:m}",
    ]
    assert Path("rough.at").read_text() == ROUGH


def test_what_is_not_well_formed_is_left_alone_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The other files are laid out all the same."""
    Path("broken.at").write_text(BROKEN)
    assert app.main(["topology", "fmt", "broken.at", "gone.at", "rough.at"]) == 2

    told = capsys.readouterr()
    assert told.err.startswith("broken.at:2:18: error[missing-colon]")
    assert "'gone.at' cannot be read" in told.err
    assert told.err.endswith("1 file changed, 2 files not formatted\n")
    assert Path("broken.at").read_text() == BROKEN
    assert Path("rough.at").read_text() == LAID_OUT


def test_the_input_is_printed_in_the_one_layout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For editors: text in, text out, line ends as they are, and nothing else on standard output."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ROUGH.encode())))
    assert app.main(["topology", "fmt", "-"]) == 0
    assert capsys.readouterr() == (LAID_OUT, "")

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BROKEN.encode())))
    assert app.main(["topology", "fmt", "-"]) == 1
    assert capsys.readouterr().out == ""


def test_an_input_that_is_no_text_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is printed in its place."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert app.main(["topology", "fmt", "-"]) == 1
    assert capsys.readouterr() == ("", "coterie: standard input is not UTF-8 text\n")


def test_a_file_keeps_its_rights_and_its_link(folder: Path) -> None:
    """It is replaced behind a symbolic link, and may be read by whom it was."""
    Path("rough.at").chmod(0o640)
    Path("link.at").symlink_to("rough.at")
    assert app.main(["topology", "fmt", "link.at"]) == 0

    assert Path("link.at").is_symlink()
    assert Path("rough.at").read_text() == LAID_OUT
    assert stat.S_IMODE(Path("rough.at").stat().st_mode) == 0o640
