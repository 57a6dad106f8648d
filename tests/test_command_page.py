from pathlib import Path

import command_page as reference
import pytest

from coterie.interfaces.cli.commands import COMMANDS, GROUPS, SHORT_FORMS

pytestmark = pytest.mark.once

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"


def test_the_reference_page_is_fresh() -> None:
    """`python docs/generate/command_page.py > docs/reference/commands.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_reference_page_explains_every_option() -> None:
    """A command, a word or an option without a meaning would be an empty cell."""
    page = reference.page()

    alone = sum(bool(place) for place, _ in COMMANDS.values()) - len(SHORT_FORMS)
    assert page.count("\n## coterie ") == alone + sum(map(len, GROUPS.values()))
    assert "|  |" not in page
    assert "None" not in page
