"""Imports go one way: a package imports only what stands before it in the line, and starting up imports little."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from bundles import bundle

pytestmark = pytest.mark.once

SRC = Path(__file__).parents[1] / "src"

LAYOUT = (SRC.parent / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[3].strip().splitlines()[1:]
"""The picture of the folders: a line for each storey, with its packages, or for what has none."""


def line(layout: Iterable[str]) -> list[set[str]]:
    """The parts of coterie from the first to the last; the parts in one set do not import each other."""
    found = []
    for row in layout:
        name, _, inside = row.partition("/ ")
        if not inside:  # packages and modules without a storey
            found.append({one.removesuffix(".py").removesuffix("/") for one in row.split(", ")})
            continue
        for level in inside.split(" ‹ "):
            found.append({f"{name}.{one.strip()}" for one in level.split(",")})
        found[-len(inside.split(" ‹ "))].add(name)  # the storey's docstring
    return found


LINE = [*line(LAYOUT[:-1]), {"coterie", "__main__"}]
"""The last line has the friendly names of `coterie` itself, loaded lazily, and the way in."""
RANK = {name: rank for rank, names in enumerate(LINE) for name in names}
STOREYS = {name.partition(".")[0] for name in RANK if "." in name}


class Import(NamedTuple):
    """One import statement's target, as a dotted name."""

    target: str
    line: int


def part(module: str) -> str:
    """The part of coterie that a dotted name belongs to: `history.journal` for `coterie.history.journal.records`."""
    names = module.split(".")[1:]
    return ".".join(names[:2] if names and names[0] in STOREYS else names[:1]) or module


def modules() -> list[str]:
    """Every module of coterie, as a dotted name."""
    files = sorted((SRC / "coterie").rglob("*.py"))
    return [".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") for file in files]


MODULES = modules()
NAMES = frozenset(MODULES)


def path(module: str) -> Path:
    """The file of *module*."""
    base = SRC.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def imports(source: ast.Module, module: str, *, is_package: bool) -> Iterator[Import]:
    """What *source* imports from coterie, wherever it stands: in functions and under TYPE_CHECKING too."""
    package = module if is_package else module.rpartition(".")[0]
    for node in statements(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield Import(name if name in NAMES else base, node.lineno)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement in *node*; expressions, which hold no imports, are most of a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def faults(imported: Iterable[Import], module: str) -> list[str]:
    """Those of the imports of *module* that go against the line."""
    own = part(module)
    found = []
    for target, line in imported:
        if target.split(".")[0] != "coterie" or part(target) == own:
            continue
        if RANK[part(target)] >= RANK[own]:
            found.append(f"{module}:{line} imports {target}")
    return found


@pytest.mark.parametrize("own", sorted({part(module) for module in MODULES}))
def test_a_module_imports_only_what_stands_before_it(own: str) -> None:
    """Every import counts: at the top, in a function, for types only."""
    inside = [module for module in MODULES if part(module) == own]
    assert [fault for module in inside for fault in faults(modules_imported(module), module)] == []


def test_the_picture_of_the_layout_is_the_layout() -> None:
    """ARCHITECTURE.md names every package, in the order of imports, and nothing that is gone; the top stays small."""
    assert {part(module) for module in MODULES} == set(RANK)
    shown = {name for row in LAYOUT for name in row.partition("/ ")[0].split(", ")}
    there = {path.name for path in (SRC / "coterie").iterdir() if path.name != "__pycache__"}

    assert {name.removesuffix("/") for name in shown} == there - {"py.typed"}
    assert len(there) <= 16


def package_of(module: str) -> str:
    """The package below its storey that *module* is in: `coterie.history.journal`, or `coterie.base`."""
    one = f"coterie.{part(module)}"
    return one if path(one).name == "__init__.py" else one.rpartition(".")[0]


def doors(package: str) -> set[str] | None:
    """The modules of *package* that others import, as the docstring of the package names them; None: all of them."""
    said = re.search(
        r"Other packages import (.*?)(?:; the rest is internal)?\.$", str(ast.get_docstring(tree(package))), re.S
    )
    assert said, f"the docstring of {package} does not say which modules other packages import"
    return None if said[1] == "every module" else set(re.findall(r"`([\w.]+)`", said[1]))


@cache
def entered() -> dict[str, set[str]]:
    """The modules of each package that other packages import, or name in a string to import them when needed."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        own = "coterie" if part(module) in LINE[-1] else package_of(module)
        found.setdefault(own, set())
        for target in {one.target for one in modules_imported(module)} | modules_named(module):
            if target in NAMES and part(target) not in LINE[-1] and package_of(target) not in (own, target):
                package = package_of(target)
                found.setdefault(package, set()).add(target.removeprefix(f"{package}."))
    return found


def modules_named(module: str) -> set[str]:
    """The modules of coterie that a string in *module* names."""
    strings = (node.value for node in ast.walk(tree(module)) if isinstance(node, ast.Constant))
    return {one.partition(":")[0] for one in strings if isinstance(one, str) and one.startswith("coterie.")}


def test_each_package_shows_its_doors() -> None:
    """What the docstring of a package names, other packages import; the rest only the package itself imports."""
    wrong = {}
    for package, used in entered().items():
        if package != "coterie" and package.removeprefix("coterie.") not in STOREYS - {"base"}:
            inside = {one.removeprefix(f"{package}.") for one in MODULES if under(one, package)} - {package}
            if used != (doors(package) or inside):
                wrong[package] = used ^ (doors(package) or inside)

    assert wrong == {}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, directly or through others; *graph* has what each imports."""
    left = {module: targets & graph.keys() - {module} for module, targets in graph.items()}
    while done := {module for module, targets in left.items() if not targets}:
        left = {module: targets - done for module, targets in left.items() if module not in done}
    found: list[set[str]] = []
    for module in left:
        if not any(module in one for one in found):
            circle = {other for other in reached(left, module) if module in reached(left, other)}
            found += [circle] if circle else []
    return found


def reached(graph: dict[str, set[str]], module: str) -> set[str]:
    """What *module* imports, directly or through others."""
    found, left = set[str](), [module]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def test_no_files_import_each_other() -> None:
    """A file can be read after the files that it imports; imports for types only count, too."""
    found = circles({module: {one.target for one in modules_imported(module)} for module in MODULES})

    assert [sorted(circle) for circle in found] == []


def test_circles_are_found_however_long() -> None:
    """A module between two circles is in neither."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "x"}, "x": {"d", "z"}, "d": {"e"}, "e": {"d"}, "z": set()}

    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"]]


@bundle(
    "source",
    [
        "import coterie.execution.runs",
        "from coterie import runs",
        "from coterie.execution.kernel.core import Core",
        "from ...execution.runs import api",
        "def late():\n    from coterie.execution.kernel.core import Core",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from coterie.agents.backends.base import Backend",
        "from coterie import __version__",
        "import coterie",
        "from coterie.agents.backends import base",
    ],
)
def test_an_import_against_the_line_is_found(source: str) -> None:
    """The rule bites, however the import is written: a view knows records and what decides by them."""
    imported = imports(ast.parse(source), "coterie.history.views.run", is_package=False)

    assert len(faults(imported, "coterie.history.views.run")) == 1


@bundle(
    "source",
    [
        "from coterie.history.journal.records import Record",
        "from . import words",
        "from coterie.history.views.words import plural",
    ],
)
def test_an_import_along_the_line_is_fine(source: str) -> None:
    """What stands before, and the package's own modules."""
    assert (
        faults(imports(ast.parse(source), "coterie.history.views.run", is_package=False), "coterie.history.views.run")
        == []
    )


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after *code*."""
    report = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())


def heavy(names: set[str]) -> set[str]:
    """Those of *names* that cost a start-up its speed."""
    return names & {"asyncio", "hypothesis", "importlib.metadata", "msgspec", "pytest", "rich", "yaml"}


def test_the_version_is_told_before_anything_is_imported() -> None:
    """`coterie --version` loads nothing of coterie but the way in."""
    loaded = loaded_by("sys.argv = ['coterie', '--version']\nimport coterie.__main__ as way_in\nway_in.main()")

    assert heavy(loaded) == set()
    assert {name for name in loaded if name.startswith("coterie.")} <= {
        "coterie.__main__",
        "coterie.base",
        "coterie.base.version",
    }


def test_help_imports_no_engine_and_no_event_loop() -> None:
    """`coterie --help` prints a prepared text."""
    loaded = loaded_by("sys.argv = ['coterie', '--help']\nimport coterie.__main__ as way_in\nway_in.main()")

    assert heavy(loaded) == set()
    assert {name for name in loaded if name.startswith("coterie.")} <= {
        "coterie.__main__",
        "coterie.interfaces",
        "coterie.interfaces.cli",
        "coterie.interfaces.cli.commands",
        "coterie.interfaces.cli.overview",
    }


def test_a_file_is_checked_without_the_parser_of_options() -> None:
    """`coterie topology validate FILE` loads what reads the file, not what a command line might need besides."""
    file = SRC.parent / "examples" / "code-review.at"
    words = ["coterie", "topology", "validate", str(file)]
    loaded = loaded_by(f"sys.argv = {words}\nimport coterie.__main__ as way_in\nassert way_in.main() == 0")

    assert heavy(loaded) <= {"msgspec"}
    assert not loaded & {"difflib", "subprocess"}


def test_importing_coterie_imports_none_of_it() -> None:
    """The friendly names are loaded when they are used."""
    loaded = loaded_by("import coterie")

    assert heavy(loaded) == set()
    assert {name for name in loaded if name.startswith("coterie.")} == set()


OF_A_KIND = (
    "coterie.history.engines.flow",
    "coterie.history.engines.loop",
    "coterie.history.engines.patterns",
    "coterie.history.engines.program",
    "coterie.history.engines.generator",
    "coterie.team.planning.loop",
    "coterie.team.planning.pattern",
    "coterie.team.planning.program",
    "coterie.team.planning.branches",
    "coterie.team.planning.plan.FlowPlan",
)
"""What only a kind of coordination may name: its engine and its plan."""


def test_only_kinds_name_an_engine() -> None:
    """What drives runs does not know what coordinates them."""
    drivers = [one for one in MODULES if one.startswith(("coterie.execution.kernel", "coterie.execution.runs"))]
    named = [
        f"{module}:{one.line} imports {one.target}"
        for module in drivers
        for one in modules_imported(module)
        if any(under(one.target, name) for name in OF_A_KIND)
    ]

    assert drivers
    assert named == []


def under(target: str, name: str) -> bool:
    """Whether *target* is *name* or lies in it."""
    return target == name or target.startswith(f"{name}.")


@cache
def modules_imported(module: str) -> list[Import]:
    """What *module* imports from coterie."""
    return list(imports(tree(module), module, is_package=path(module).name == "__init__.py"))


@cache
def tree(module: str) -> ast.Module:
    """The syntax tree of *module*."""
    return ast.parse(path(module).read_text(encoding="utf-8"))


@bundle(
    ("name", "places"),
    [("JsonlStore", {"coterie.execution.runs.repository"}), ("parent.parent", {"coterie.execution.runs.index"})],
)
def test_one_module_knows_where_runs_lie(name: str, places: set[str]) -> None:
    """Who reads runs asks the repository: a run can lie elsewhere one day, and its readers stay as they are."""
    users = {
        module
        for module in MODULES
        if not module.startswith("coterie.history.journal") and name in path(module).read_text(encoding="utf-8")
    }

    assert users == places


MOST_ARGUMENTS = 8
WITH_MORE = {
    "agents.actors.runtime.__init__",  # the system as users write it
    "agents.actors.plugins.providers.__init__",
}
"""Functions before `runs` that still take more. Remove what is gone; add nothing."""


def test_related_arguments_are_one_value() -> None:
    """A function that everything above builds on takes at most eight arguments."""
    many = set[str]()
    for module in (one for one in MODULES if RANK[part(one)] < RANK["execution.runs"]):
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([one for one in given if one.arg not in ("self", "cls")]) > MOST_ARGUMENTS:
                    many.add(f"{module.removeprefix('coterie.')}.{node.name}")

    assert many == WITH_MORE


def test_no_file_has_more_than_700_lines() -> None:
    """A second subject is a second module. A bound of 500 cut subjects in two, such as the fold and its reopening."""
    assert {module: n for module in MODULES if (n := len(path(module).read_text("utf-8").splitlines())) > 700} == {}
