"""Modules under the names that they had before the package had storeys."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from bundles import bundle

import coterie

EARLIER = [
    ("coterie.backends", "coterie.agents.backends"),
    ("coterie.journal.records", "coterie.history.journal.records"),
    ("coterie.actors.plugins.otlp", "coterie.agents.actors.plugins.otlp"),
    ("coterie.clock", "coterie.base.clock"),
    ("coterie.formats.at.writer", "coterie.team.formats.at.writer"),
]


@bundle(("earlier", "now"), EARLIER)
def test_an_earlier_name_gives_the_same_module(earlier: str, now: str) -> None:
    """Programs, plans and journals name modules of the first layout; none is loaded twice."""
    module = importlib.import_module(earlier)

    assert module is importlib.import_module(now)
    assert module.__name__ == now
    assert module.__spec__ is not None
    assert module.__spec__.name == now


@bundle(
    "order",
    [
        ("coterie.kernel.core", "coterie.execution.kernel.core"),
        ("coterie.execution.kernel.core", "coterie.kernel.core"),
    ],
)
def test_the_order_of_names_does_not_matter(order: tuple[str, str]) -> None:
    """In a new process, where the first import of the two loads the module."""
    code = f"import sys, {order[0]}, {order[1]}; sys.exit(sys.modules[{order[0]!r}] is not sys.modules[{order[1]!r}])"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@bundle(
    ("module", "package", "now"),
    [
        ("coterie.planning.plan", "coterie.planning", "coterie.team.planning"),
        ("coterie.runs", "coterie", "coterie.execution.runs.api"),
        ("coterie.runs.outcome", "coterie", "coterie.execution.runs.api"),
    ],
)
def test_a_function_keeps_its_name_when_a_module_of_that_name_is_imported(module: str, package: str, now: str) -> None:
    """`coterie.runs` was a module and is a function, whether the function was used before or not."""
    name = "plan" if package == "coterie.planning" else "runs"
    check = f"from {package} import {name}; from {now} import {name} as now; assert {name} is now"
    for code in (f"import {module}; {check}", f"{check}; import {module}; {check}"):
        assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0, code


@bundle("name", ["coterie.nothing", "coterie.runs.nothing"])
def test_a_module_that_never_was_is_named_as_it_was_asked_for(name: str) -> None:
    """A typing error in a program is found where it is."""
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module(name)


def test_every_package_of_a_storey_had_a_name_without_it() -> None:
    """The table is complete for what stood in the first layout, and names nothing that is gone."""
    there = {
        module.name: storey
        for storey in set(coterie._MOVED.values())
        for module in pkgutil.iter_modules([str(Path(*coterie.__path__, storey))])
    }

    later = {"agent_writes", "folder_names", "links", "moved", "program_files", "user_code", "version"}
    assert {name: there[name] for name in there.keys() - later} == coterie._MOVED
