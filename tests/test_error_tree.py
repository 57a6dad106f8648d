"""The docstring of `coterie.errors` shows its classes as they are."""

import inspect
import re

import pytest

from coterie import errors

pytestmark = pytest.mark.once


def test_the_docstring_shows_the_tree_of_errors() -> None:
    """Each class once, below the first of its bases."""
    above: list[str] = []
    shown: dict[str, str] = {}
    for indent, name in re.findall(r"^( *)[-*] (\w+)", errors.__doc__ or "", re.MULTILINE):
        above[len(indent) // 2 :] = [name]
        shown[name] = above[-2] if len(above) > 1 else "Exception"
    found = {
        name: value.__bases__[0].__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.CoterieError)
    }

    assert shown == found
