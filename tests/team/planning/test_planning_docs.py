import re
from pathlib import Path

import pytest

from coterie.team import formats
from coterie.team.planning import BACKENDS, plan

PAGE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```at\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_page_can_be_planned(text: str) -> None:
    """And there is nothing to say of them."""
    source = formats.read_text(text)
    assert source.topology is not None
    assert source.diagnostics == ()

    made, said = plan(source.topology)
    assert made is not None
    assert said == []


def test_the_page_has_every_backend() -> None:
    """The first column of their table."""
    table = PAGE[PAGE.index("The backends:") : PAGE.index("`model` names the model")]

    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == BACKENDS
