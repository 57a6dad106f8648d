"""Every code of supervised systems: what it finds, in its exact words, and the nearest file in which it finds nothing.

`data/systems/rules/<code>/` is built like `data/patterns/rules/`. To see what changed after a change of a rule, run
`python tests/team/formats/test_system_rules.py`.
"""

from functools import cache
from pathlib import Path

from bundles import bundle

from coterie.base.diagnostics import Diagnostic
from coterie.team.formats import read
from coterie.team.planning import examine
from coterie.team.planning.codes import CODES

DATA = Path(__file__).parents[2] / "data" / "systems" / "rules"
VALID = sorted(DATA.glob("*/valid-*.yaml"))
INVALID = sorted(DATA.glob("*/invalid-*.yaml"))
SEVERITIES = {code.code: code.severity for code in CODES}


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@bundle("path", VALID, ids=label)
def test_a_rule_finds_nothing_in_a_file_that_keeps_it(path: Path) -> None:
    """Nor does any other find anything there."""
    assert [each.message for each in _said(path)] == []


@bundle("path", INVALID, ids=label)
def test_a_rule_says_exactly_what_is_wrong(path: Path) -> None:
    """The position, the words and the hint."""
    assert path.parent.name in {each.code for each in _said(path)}
    assert all(each.span is not None for each in _said(path))
    assert _rendered(path) == path.with_suffix(".txt").read_text(encoding="utf-8")


@bundle("path", INVALID, ids=label)
def test_a_code_is_as_bad_as_the_table_says(path: Path) -> None:
    """Wherever it is shown."""
    for each in _said(path):
        assert each.severity is SEVERITIES[each.code], each


def test_every_code_has_both() -> None:
    """There are 40 invalid files or more, one at least for each code."""
    in_files = {code.code for code in CODES if code.in_files and code.system}

    assert {path.parent.name for path in VALID} >= in_files
    assert {path.parent.name for path in INVALID} >= in_files
    assert len(INVALID) >= 40


@cache
def _said(path: Path) -> tuple[Diagnostic, ...]:
    return examine(read(path))[1]


def _rendered(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return "".join(each.render(text) for each in _said(path)).replace(f"{path.parent}/", "")


if __name__ == "__main__":
    for file in INVALID:
        file.with_suffix(".txt").write_text(_rendered(file), encoding="utf-8")
