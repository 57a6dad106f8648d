"""The page about Python lists the public names."""

import python_page


def test_the_table_of_names_is_not_stale() -> None:
    """`python docs/generate/python_page.py` writes it."""
    text = python_page.PAGE.read_text()

    assert python_page.page(text) == text
