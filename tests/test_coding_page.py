"""The page about coding agents."""

import re

import pytest
from coding_page import MEANINGS, PAGE, page, table

from coterie.team import formats
from coterie.team.planning import plan

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.extras("acp", "claude")
def test_the_table_of_abilities_is_that_of_the_code() -> None:
    """`python docs/generate/coding_page.py` writes it anew."""
    assert page(TEXT) == TEXT
    assert table() in TEXT


def test_every_ability_has_words() -> None:
    """So that a new one is explained."""
    assert all(words in TEXT for words in MEANINGS.values())


@pytest.mark.parametrize("text", re.findall(r"^```at\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
def test_the_examples_of_the_page_can_be_planned(text: str) -> None:
    """Without a warning."""
    source = formats.read_text(text)
    assert source.topology is not None
    made, said = plan(source.topology)

    assert (source.diagnostics, said) == ((), [])
    assert made is not None
