"""The reference page of the settings."""

from pathlib import Path

from coterie.formats.settings import keys, reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_the_page_is_fresh() -> None:
    """`python -m coterie.formats.settings.reference > docs/reference/settings.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == reference.page()


def test_every_setting_is_on_the_page() -> None:
    """None is left out."""
    page = reference.page()
    assert [name for name in keys() if f"| `{name}` |" not in page] == []
