"""Every code of loops by folders: what it finds, in its exact words, and the nearest folder in which it finds nothing.

`data/loops/rules/<code>/` holds the folders `valid-*` and `invalid-*`, with what `validate` says of the latter beside
it. To see what changed after a change of a rule, run `python tests/team/formats/test_loop_rules.py`: it writes what is
said anew, for reading it in a diff.
"""

import os
from pathlib import Path

from bundles import bundle

from coterie.base.diagnostics import Diagnostic
from coterie.team.formats import read
from coterie.team.planning import examine
from coterie.team.planning.codes import CODES

DATA = Path(__file__).parents[2] / "data" / "loops" / "rules"
VALID = sorted(path for path in DATA.glob("*/valid-*") if path.is_dir())
INVALID = sorted(path for path in DATA.glob("*/invalid-*") if path.is_dir())
SEVERITIES = {code.code: code.severity for code in CODES}
SOFTER = {"not-toml"}
"""What is an error of `topology.toml`, and a warning of settings: they have a grammar besides."""


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@bundle("path", VALID, ids=label)
def test_a_rule_finds_nothing_in_a_folder_that_keeps_it(path: Path) -> None:
    """Nor does any other find an error there."""
    said = _said(path)

    assert path.parent.name not in {each.code for each in said}
    assert [each.message for each in said if each.is_error] == []


@bundle("path", INVALID, ids=label)
def test_a_rule_says_exactly_what_is_wrong(path: Path) -> None:
    """The place, the words, the hint; and little beside it."""
    assert path.parent.name in {each.code for each in _said(path)}
    assert _rendered(path) == path.with_suffix(".txt").read_text(encoding="utf-8")


@bundle("path", INVALID, ids=label)
def test_a_code_is_as_bad_as_the_table_says(path: Path) -> None:
    """Wherever it is shown."""
    for each in _said(path):
        assert each.severity is SEVERITIES[each.code] or each.code in SOFTER, each


def test_every_code_has_both() -> None:
    """A folder that is told of it, and one that is not."""
    in_files = {code.code for code in CODES if code.in_files and code.loop}

    assert {path.parent.name for path in VALID} == in_files
    assert {path.parent.name for path in INVALID} == in_files


def _said(path: Path) -> tuple[Diagnostic, ...]:
    return examine(read(path))[1]


def _rendered(path: Path) -> str:
    text = "".join(each.render() for each in _said(path))
    settings = os.environ.get("XDG_CONFIG_HOME", "~/.config")
    return text.replace(f"{path}/", "").replace(str(path), ".").replace(settings, "~/.config")


if __name__ == "__main__":
    for folder in INVALID:
        folder.with_suffix(".txt").write_text(_rendered(folder), encoding="utf-8")
