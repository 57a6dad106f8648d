import os
from pathlib import Path

import pytest
from bundles import bundle

from coterie.base.diagnostics import Fix, Span, warning
from coterie.base.files import replace_text
from coterie.team.formats import Source, read_text
from coterie.team.formats.fixes import apply_fixes, files_below

WRONG = """\
topology t [pipeline] {
  agent a { modle: m }
  agent b { model m  timeout: 30 }
  flow { a => b  [max 2, when b.v = 'x']  b -> a }
}
"""
DATA = Path(__file__).parents[2] / "data" / "at" / "invalid"


def mended(text: str) -> tuple[str, list[str]]:
    done = apply_fixes(read_text(text, "t.at"), lambda source: source.diagnostics)
    return done.source.text, [fix.title for fix in done.fixes]


def test_fixes_are_applied_until_none_is_left() -> None:
    """What one uncovers is mended in the next round."""
    text, done = mended(WRONG)

    assert text.splitlines()[:3] == [
        "topology t : [pipeline] {",
        "  agent a { model: m }",
        "  agent b { model: m  timeout: 30s }",
    ]
    assert "insert the colon" in done
    assert not [each for each in read_text(text).diagnostics if each.fix is not None]


def test_a_string_in_single_quotes_keeps_its_text() -> None:
    """Signs that double quotes would read otherwise included."""
    text, _ = mended("""topology t : [pipeline] { agent a { model: m description: 'say "a\\b" now' } }\n""")

    assert r'''description: "say \"a\\b\" now"''' in text


def test_nothing_is_done_to_what_needs_nothing() -> None:
    """A good text, and one that nobody knows how to mend."""
    assert mended("topology t : [pipeline] {\n  agent a { model: m }\n}\n")[1] == []
    assert mended("flow") == ("flow", [])


@bundle("path", sorted(DATA.glob("*.at")), ids=lambda path: path.stem)
def test_mending_adds_no_error(path: Path) -> None:
    """All files with mistakes: no more errors than before."""
    text = path.read_bytes().decode()
    after, _ = mended(text)

    before, left = (sum(each.is_error for each in read_text(each_text).diagnostics) for each_text in (text, after))
    assert left <= before


def test_fixes_that_touch_each_other_wait_for_each_other() -> None:
    """The second is offered again, if it is still right."""
    rounds: list[str] = []

    def examine(source: Source) -> list[object]:
        rounds.append(source.text)
        at = source.text.find("a")
        return (
            [
                warning("x", "", Span(1, 1, 1, at), fix=Fix("first", Span(1, 1, 2, at), "b")),
                warning("x", "", Span(1, 1, 1, at), fix=Fix("second", Span(1, 1, 2, at + 1), "c")),
            ]
            if at >= 0
            else []
        )

    done = apply_fixes(read_text("aaaa"), examine)  # type: ignore[arg-type]

    assert [fix.title for fix in done.fixes] == ["first", "first"]
    assert rounds == ["aaaa", "baa", "bb"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """With its mode, behind links, and nothing else is left in the folder. A new file has mode 0644."""
    file = tmp_path / "t.at"
    file.write_text("old")
    file.chmod(0o604)
    (tmp_path / "link.at").symlink_to(file)
    replace_text(tmp_path / "link.at", "new\r\n")

    assert file.read_bytes() == b"new\r\n"
    assert file.stat().st_mode & 0o777 == 0o604
    assert sorted(os.listdir(tmp_path)) == ["link.at", "t.at"]
    replace_text(tmp_path / "new.at", "")
    assert (tmp_path / "new.at").stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full leaves the old text, and no half one beside it."""
    file = tmp_path / "t.at"
    file.write_text("old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coterie.base.files.os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        replace_text(file, "new")
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["t.at"])


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    """Teams in it and below; nothing hidden. A file is itself, whatever it is."""
    for name in ("b.at", "in/a.at", "in/notes.md", ".hidden/c.at", ".d.at"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert files_below(tmp_path) == [tmp_path / "b.at", tmp_path / "in" / "a.at"]
    assert files_below(tmp_path / "in" / "notes.md") == [tmp_path / "in" / "notes.md"]
