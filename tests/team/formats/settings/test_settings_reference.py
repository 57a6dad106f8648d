"""The reference page of the settings."""

from pathlib import Path

import settings_page as reference

from coterie.team.formats.settings import keys

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "settings.md"


def test_the_page_is_fresh() -> None:
    """`python docs/generate/settings_page.py > docs/reference/settings.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == reference.page()


def test_every_setting_is_on_the_page() -> None:
    """None is left out."""
    page = reference.page()
    assert [name for name in keys() if f"| `{name}` |" not in page] == []
