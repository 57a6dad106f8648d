from pathlib import Path

import notation_pages as notation
import pytest

from coterie.team.formats.at.language import LANGUAGE
from coterie.team.planning.codes import CODES

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[1] / "docs" / "reference"


def test_the_page_of_the_language_is_fresh() -> None:
    """`python docs/generate/notation_pages.py language > docs/reference/language.md` writes it anew."""
    assert (DOCS / "language.md").read_text(encoding="utf-8") == notation.language_page()


def test_the_page_of_the_rules_is_fresh() -> None:
    """`python docs/generate/notation_pages.py rules > docs/reference/rules.md` writes it anew."""
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == notation.rules_page()


def test_the_page_of_the_language_has_every_block_and_field() -> None:
    """No cell that should say something is empty."""
    page = notation.language_page()

    for block in LANGUAGE:
        assert f"\n## {block.name}\n" in page
        for field in block.fields:
            assert f"\n| `{field.name}` | " in page
    assert "| None |" not in page


def test_the_page_of_the_rules_shows_every_code_that_a_file_can_show() -> None:
    """With an example below its own heading."""
    page = notation.rules_page()

    for code in CODES:
        assert f"\n## {code.code}\n" in page
        if code.in_files:
            shown = page.partition(f"\n## {code.code}\n")[2].partition("\n## ")[0]
            assert f"[{code.code}]: " in shown, code.code
