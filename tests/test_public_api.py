"""The names users rely on: sorted, complete, documented, and there."""

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import pytest
from bundles import bundle

import coterie

pytestmark = pytest.mark.once


def packages() -> list[str]:
    """`coterie` and its public packages."""
    found = [module.name for module in pkgutil.iter_modules(coterie.__path__, "coterie.") if module.ispkg]
    return ["coterie", *found]


def exports(module: ModuleType) -> list[str]:
    """What *module* says is public; a package that says nothing has no friendly names."""
    return list(getattr(module, "__all__", []))


PACKAGES = packages()


@bundle("package", PACKAGES)
def test_the_public_names_are_sorted_and_told_once(package: str) -> None:
    """`__all__` reads like an index: constants, classes, then functions, as ruff sorts them too."""
    names = exports(importlib.import_module(package))

    assert names == sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))


@bundle("package", PACKAGES)
def test_public_names_are_there_and_listed(package: str) -> None:
    """Every name can be imported, and `dir()` shows it, so an interactive user finds it."""
    module = importlib.import_module(package)
    names = exports(module)

    assert [name for name in names if not hasattr(module, name)] == []
    assert set(names) - set(dir(module)) == set()


@bundle("package", PACKAGES)
def test_public_objects_say_what_they_promise(package: str) -> None:
    """Classes and functions have a docstring of their own, and so do their public methods."""
    module = importlib.import_module(package)
    found = [one for name in exports(module) for one in documents(name, getattr(module, name))]

    assert [where for where, documented in found if not documented] == []


def documents(name: str, found: Any) -> list[tuple[str, bool]]:
    """Which of *found* and its public methods have a docstring; data has none to give."""
    if inspect.isclass(found):
        methods = {key: value for key, value in vars(found).items() if not key.startswith("_") and callable(value)}
        return [
            (name, bool(found.__doc__)),
            *((f"{name}.{key}", bool(value.__doc__)) for key, value in methods.items()),
        ]
    if inspect.isroutine(found) or inspect.ismodule(found):
        return [(name, bool(found.__doc__))]
    return []


@bundle("package", PACKAGES)
def test_nothing_public_is_defined_and_not_exported(package: str) -> None:
    """What a package's `__init__` defines or re-exports without an underscore stands in its `__all__`."""
    module = importlib.import_module(package)
    visible = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("coterie")
    }

    assert visible <= set(exports(module))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typo in a friendly name fails as it does everywhere in Python."""
    with pytest.raises(AttributeError, match="no attribute 'Topolgy'"):
        coterie.Topolgy  # noqa: B018


def test_the_version_is_the_one_of_the_distribution() -> None:
    """`coterie.__version__` is one constant, and says what was installed."""
    from importlib.metadata import version

    assert coterie.__version__ == version("coterie")
