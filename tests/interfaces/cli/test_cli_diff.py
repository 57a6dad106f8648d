import json
from pathlib import Path

import pytest

from coterie.interfaces.cli import app

OLD = """\
topology t : [pipeline] {
  agent a { model: opus  prompt: "Say what you think of it, at length if you must, and why it is so." }
  agent b { model: sonnet  retry: 2 }
  agent gone { model: haiku }
  flow {
    a -> b
    b -> a     [when b.verdict == no, max 3]
    b -> gone  [when b.verdict == yes]
  }
}
"""
NEW = """\
topology t : [pipeline] {
  agent a { model: opus  prompt: "Say what you think of it, in one sentence if you can, and why it is so." }
  agent called { model: haiku }
  agent b { model: sonnet  timeout: 30s }
  human boss { }
  flow {
    a -> b
    b -> called  [when b.verdict == yes]
    b -> a       [when b.verdict == no, max 4]
    called -> boss
  }
}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.at").write_text(OLD)
    Path("new.at").write_text(NEW)


def test_changes_are_told_thing_by_thing(capsys: pytest.CaptureFixture[str]) -> None:
    """Short values beside each other, long texts line by line, the order last; the status is that of diff."""
    assert app.main(["topology", "diff", "old.at", "new.at"]) == 1

    assert capsys.readouterr().out.splitlines() == [
        "~ agent a",
        "    prompt:",
        "      @@ -1 +1 @@",
        "      -Say what you think of it, at length if you must, and why it is so.",
        "      +Say what you think of it, in one sentence if you can, and why it is so.",
        "~ agent b",
        "    + timeout: 30",
        "    - retry: 2",
        "- agent gone  (model: haiku)",
        "+ agent called  (model: haiku)",
        "+ human boss",
        "~ arrow b -> a",
        "    max: 3 → 4",
        "~ arrow b -> called",
        "    targets: [\"gone\"] → [\"called\"]",
        "+ arrow called -> boss",
        "~ arrows from b, in another order",
        "    - b -> a, b -> called",
        "    + b -> called, b -> a",
    ]  # fmt: skip


def test_the_same_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Layout and the order of declarations do not count."""
    Path("moved.at").write_text(
        OLD.replace("  agent gone { model: haiku }\n", "").replace("  flow", "  agent gone{model:haiku}\n  flow")
    )
    assert app.main(["topology", "diff", "old.at", "moved.at"]) == 0

    assert capsys.readouterr().out == "the same\n"


def test_changes_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A list of the same values."""
    assert app.main(["topology", "diff", "old.at", "new.at", "--json"]) == 1

    found = json.loads(capsys.readouterr().out)
    assert {"kind": "changed", "what": "arrow b -> a", "field": "max", "old": 3, "new": 4} in found


def test_what_cannot_be_read_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """And the reason is told."""
    assert app.main(["topology", "diff", "old.at", "nowhere.at"]) == 2
    assert "'nowhere.at' cannot be read" in capsys.readouterr().err
