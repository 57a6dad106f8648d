import json
from pathlib import Path

import pytest

from coterie.interfaces.cli import app

ROOT = Path(__file__).parents[3]
RELEASE = str(ROOT / "examples" / "nested" / "release.at")


def test_a_team_is_drawn_for_pages_unless_asked_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    """Mermaid is what most pages draw."""
    assert app.main(["topology", "graph", RELEASE]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "flowchart TB",
        '  n0("drafter<br/>sonnet")',
        '  n1("check<br/>topology polish")',
        '  n2("announcer<br/>haiku")',
        "  n0 --> n1",
        "  n1 --> n2",
    ]


def test_the_teams_within_are_drawn_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """With their own arrows and bounds; as JSON it is the value that the other formats write."""
    assert app.main(["topology", "graph", RELEASE, "--nested", "--format", "json"]) == 0

    drawn = json.loads(capsys.readouterr().out)
    assert [box["name"] for box in drawn["boxes"]] == ["drafter", "check", "announcer"]
    assert drawn["nested"]["check"]["arrows"][1] == {
        "source": "critic",
        "target": "editor",
        "label": 'verdict == "revise", max 3',
        "back": True,
        "implied": False,
    }


@pytest.mark.parametrize(("format", "begins"), [("dot", 'digraph "release" {'), ("svg", "<svg "), ("json", '{"name":')])
def test_a_picture_goes_where_it_is_wanted(
    format: str, begins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds what would be printed."""
    file = tmp_path / "picture"
    assert app.main(["topology", "graph", RELEASE, "-f", format, "-o", str(file)]) == 0
    assert app.main(["topology", "graph", RELEASE, "-f", format]) == 0

    assert file.read_text() == capsys.readouterr().out
    assert file.read_text().startswith(begins)


def test_what_can_be_read_of_a_wrong_file_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is told, and the status says so."""
    file = tmp_path / "wrong.at"
    file.write_text("topology t : [pipeline] {\n  agent a { model: m }\n  flow { a -> b }\n}\n")
    assert app.main(["topology", "graph", str(file)]) == 1

    told = capsys.readouterr()
    assert '  n1>"b"]' in told.out
    assert "unknown-agent" in told.err
