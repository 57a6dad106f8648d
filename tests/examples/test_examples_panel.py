"""The examples of patterns: those of small programs do what they say, and every one can be rehearsed."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Place

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[2] / "examples"
PANEL = EXAMPLES / "panel"
FILES = sorted([*EXAMPLES.glob("patterns/*.yaml"), *PANEL.glob("*.yaml"), *PANEL.glob("*.at")])
SHORT = "def one():\n    return 1\n"
LONG = "def one():\n    return 1\n\n\ndef two(x):\n    if x:\n        return 2\n    return 3\n"


@pytest.fixture
def sources(tmp_path: Path) -> Place:
    """A folder with two Python files."""
    (tmp_path / "short.py").write_text(SHORT)
    (tmp_path / "long.py").write_text(LONG)
    return Place(tmp_path)


def ran(place: Place, file: str, prompt: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(place.look("run", str(PANEL / file), prompt, "--json").out)
    assert document["outcome"] == "completed", document["reason"]
    return document["result"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_example_can_be_rehearsed(sources: Place, file: Path) -> None:
    """And nothing is wrong with it."""
    assert sources.look("topology", "validate", str(file)).out == f"{file}: ok\n"
    words = ("--input", "question=Why?", "--input", "task=Why?", "--input", "prompt=Why?", "--rehearse")

    assert "completed" in sources.look("run", str(file), *words).out


def test_a_panel_picks_a_file_and_measures_it(sources: Place) -> None:
    """What the first team says is the prompt of the second, whose verdict is the whole's."""
    result = ran(sources, "review.pattern.yaml", "Which file needs a look?")

    assert result["text"].strip() == "long.py has 8 lines; its longest function, two, has 4."
    final = result["outputs"]["compound"]["final_output"]
    assert (final["final_approved"], final["approvals"]) == (True, 2)


def test_a_wrong_measure_is_rejected(sources: Place) -> None:
    """The checkers measure again, and say what is wrong."""
    panel = (PANEL / "measure.pattern.yaml").read_text()
    liar = '["echo", "long.py has 9 lines; its longest function, two, has 4."]'
    text = panel.replace('["{python}", agents/measure.py]', liar).replace("agents/", f"{PANEL}/agents/")
    (sources.folder / "liar.pattern.yaml").write_text(text)
    document = json.loads(sources.look("run", "liar.pattern.yaml", "How long is long.py?", "--json").out)

    output = document["result"]["outputs"]["crosscheck"]
    assert (output["final_approved"], output["revisions"]) == (False, 1)
    assert output["consensus"]["issues"] == ["long.py has 8 lines, not 9"]


def test_a_flow_goes_on_by_the_verdict(sources: Place) -> None:
    """The panel approves, so it is published."""
    assert ran(sources, "release.at", "How long is short.py?")["text"].strip() == "published"


def test_a_text_goes_through_three_stages(sources: Place) -> None:
    """Each works on what the one before gave."""
    result = ran(sources, "title.pattern.yaml", "A   long  text. It goes on. And on.")

    assert result["text"].strip() == "A Long Text It Goes\n\nA long text. It goes on."
    assert list(result["outputs"]["pipeline"]["checkpoints"]) == ["shorten"]


def test_a_pattern_of_ones_own_is_played(sources: Place) -> None:
    """By the function beside its file."""
    result = ran(sources, "second-opinion.pattern.yaml", "How long is short.py?")

    assert result["text"].startswith("short.py has 2 lines; its longest function, one, has 2.")
    assert '"approved": true' in result["text"]
