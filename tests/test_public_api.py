"""The names users rely on: sorted, complete, documented, and there."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bundles import bundle

import coterie

pytestmark = pytest.mark.once


def packages() -> list[str]:
    """`coterie`, the packages below it, and those of its storeys."""
    found = [module.name for module in pkgutil.iter_modules(coterie.__path__, "coterie.") if module.ispkg]
    below = [
        module.name
        for package in found
        for module in pkgutil.iter_modules([str(Path(*coterie.__path__, package.partition(".")[2]))], f"{package}.")
        if module.ispkg
    ]
    return ["coterie", *found, *below]


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


def test_public_packages_have_the_names_that_they_had_before_the_storeys() -> None:
    """A program that imports from `coterie.backends` finds there what it found in the first layout."""
    from coterie.agents import backends
    from coterie.team import formats, planning

    for name, now in {"backends": backends, "formats": formats, "planning": planning}.items():
        assert importlib.import_module(f"coterie.{name}") is now
        assert exports(now)


@bundle("package", ["coterie", "coterie.agents.backends", "coterie.team.formats", "coterie.patterns"])
def test_names_that_load_on_first_use_are_those_that_type_checkers_see(package: str) -> None:
    """Each from the module that both name; `dir()` shows them before they are used."""
    module = importlib.import_module(package)
    tree = ast.parse(inspect.getsource(module))
    [block] = (node for node in tree.body if isinstance(node, ast.If))
    seen = {name: place for name, place in reexported([*tree.body, *block.body]) if not name.startswith("__")}

    assert seen.keys() == set(module.__all__)
    for name, place in seen.items():
        assert getattr(module, name) is getattr(importlib.import_module(str(place)), name)
    code = f"import {package} as package; print(*dir(package))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.keys() <= set(done.stdout.split())


def reexported(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The names of coterie that a module with *body* has for type checkers, each with the module that it is from."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("coterie."):
            for one in node.names:
                if one.name == "*":
                    below = ast.parse(inspect.getsource(importlib.import_module(str(node.module)))).body
                    yield from ((made.name, str(node.module)) for made in below if isinstance(made, ast.ClassDef))
                    yield from reexported(below)
                elif one.asname == one.name:
                    yield one.name, str(node.module)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typo in a friendly name fails as it does everywhere in Python."""
    with pytest.raises(AttributeError, match="no attribute 'Topolgy'"):
        coterie.Topolgy  # noqa: B018


def test_the_version_is_the_one_of_the_distribution() -> None:
    """`coterie.__version__` is one constant, and says what was installed."""
    from importlib.metadata import version

    assert coterie.__version__ == version("coterie")
