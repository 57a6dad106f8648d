"""The `.at` notation by files: what a valid one says, and the exact words about an invalid one.

To see what changed after a change of the reader, run `python tests/team/formats/test_formats_files.py`: it writes the
expected files anew, for reading them in a diff.
"""

import ast
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from bundles import bundle
from msgspec import Struct
from msgspec.structs import fields

from coterie.base.diagnostics import Severity, Span
from coterie.team.formats import Source, at, read
from coterie.team.topology.conditions import Condition
from coterie.team.topology.model import Agent

DATA = Path(__file__).parents[2] / "data" / "at"
VALID = sorted((DATA / "valid").glob("*.at"))
INVALID = sorted((DATA / "invalid").glob("*.at"))
COMPOSING = sorted((DATA / "composing").glob("*/*/main.at"))


@bundle("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_says_what_is_expected(path: Path) -> None:
    """A file without errors gives the topology beside it, and the warnings and notes listed there."""
    said = _said(_read(path))
    assert said == json.loads(path.with_suffix(".json").read_text())
    assert _written(said) == path.with_suffix(".json").read_text()  # so that writing it anew changes no order


@bundle("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_file_is_told_exactly_what_is_wrong(path: Path) -> None:
    """Each fault is one diagnostic: its place, its code, its words, its hint."""
    source = _read(path)

    assert source.has_errors
    assert _rendered(source) == path.with_suffix(".txt").read_text()


@bundle("path", INVALID, ids=lambda path: path.stem)
def test_a_fix_removes_what_it_was_offered_for(path: Path, tmp_path: Path) -> None:
    """Applying a fix leaves no diagnostic of its code at its place, and adds no error."""
    source = _read(path)
    errors = sum(diagnostic.is_error for diagnostic in source.diagnostics)
    for diagnostic in source.diagnostics:
        if diagnostic.fix is None:
            continue
        at, length = diagnostic.fix.span.offset, diagnostic.fix.span.length
        mended = tmp_path / path.name
        mended.write_text(source.text[:at] + diagnostic.fix.text + source.text[at + length :])

        left = read(mended).diagnostics
        assert (diagnostic.code, diagnostic.span) not in [(each.code, each.span) for each in left]
        assert sum(each.is_error for each in left) <= errors - diagnostic.is_error


def test_every_code_of_the_reader_has_a_file() -> None:
    """No diagnostic of the `.at` reader goes without a file that shows it."""
    shown = {diagnostic.code for path in (*VALID, *INVALID, *COMPOSING) for diagnostic in _read(path).diagnostics}

    assert _codes() - shown == {"no-folder"}  # a text that is no file


def _codes() -> set[str]:
    """The codes that the reader's modules report, by their calls."""
    calls = {"error", "warning", "note", "_error", "_bad"}
    codes = set()
    for module in Path(at.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                codes |= {node.args[0].value} if name in calls else set()
    return codes


def _read(path: Path) -> Source:
    source = read(path)
    return Source(source.text, path.name, source.topology, source.diagnostics)


def _rendered(source: Source) -> str:
    return "".join(_named(diagnostic.render(source.text), source.file) for diagnostic in source.diagnostics)


def _named(rendered: str, name: str) -> str:
    """The rendering with the file's name instead of its path, which is another on each machine."""
    head, _, rest = rendered.partition(name)
    return name + rest if head.endswith("/") else rendered


def _said(source: Source) -> dict[str, Any]:
    return {
        "topology": _data(source.topology),
        "diagnostics": [_brief(diagnostic) for diagnostic in source.diagnostics],
    }


def _written(said: dict[str, Any]) -> str:
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


def _brief(diagnostic: Any) -> str:
    assert diagnostic.severity is not Severity.ERROR, diagnostic
    place = f"{diagnostic.span.line}:{diagnostic.span.column} " if diagnostic.span else ""
    return f"{place}{diagnostic.severity.value}[{diagnostic.code}]"


def _data(value: Any) -> Any:
    """A value of the model as JSON: without spans, and without what has its default."""
    if isinstance(value, Condition):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        said = {"is": type(value).__name__}
        for each in fields(value):
            inner = getattr(value, each.name)
            unsaid = inner is None or inner == each.default or (isinstance(inner, Mapping | tuple) and not inner)
            if not unsaid and each.name not in ("span", "spans") and not (each.name == "file" and "nodes" in said):
                said[each.name] = _data(inner)
        if isinstance(value, Agent) and value.tools == ():
            said["tools"] = []
        return said
    if isinstance(value, Mapping):
        return {key: _data(inner) for key, inner in value.items() if not isinstance(inner, Span)}
    return [_data(inner) for inner in value] if isinstance(value, tuple | list) else value


if __name__ == "__main__":
    for file in VALID:
        file.with_suffix(".json").write_text(_written(_said(_read(file))))
    for file in INVALID:
        file.with_suffix(".txt").write_text(_rendered(_read(file)))
