"""Every code by files: what it finds, in its exact words, and the nearest file in which it finds nothing.

`data/at/rules/<code>/` holds `valid-*.at` and `invalid-*.at`, with what `validate` says of the latter beside it; other
files there belong to those. To see what changed after a change of a rule, run `python
tests/team/formats/test_rules.py`: it writes what is said anew, for reading it in a diff.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bundles import bundle

import coterie
from coterie.base.diagnostics import Diagnostic
from coterie.team.formats import read, read_text
from coterie.team.planning import examine
from coterie.team.planning.codes import CHECKING, CODES
from coterie.team.topology.checks import rules

DATA = Path(__file__).parents[2] / "data" / "at" / "rules"
VALID = sorted(DATA.glob("*/valid-*.at"))
INVALID = sorted(DATA.glob("*/invalid-*.at"))
SEVERITIES = {code.code: code.severity for code in CODES}
SOFTER = {"bad-value", "cannot-run-group", "fragment", "param-not-set", "registry-import", "unknown-param"}
"""What is an error in some places and less in others: a group in a flow keeps a file from running, not from being
valid, a text may hold what only looks like a parameter, and a block without effect may hold any value."""

# fmt: off
FIXED = {
    "attribute-order", "attributes-in-chain", "bad-arrow", "double-arrow", "fan-out-not-declared", "implied-max",
    "missing-brace", "missing-colon", "missing-comma", "missing-patterns", "missing-source", "single-quotes",
    "unclosed-bracket", "unclosed-string", "unknown-agent", "unknown-artifact", "unknown-block", "unknown-field",
    "unknown-pattern", "unknown-retrieval", "unknown-role", "unknown-schema", "unknown-server", "unknown-skill",
    "unknown-store", "unknown-tool", "unprovided-model",
}
# fmt: on
"""The codes that offer a fix in their files."""


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@bundle("path", VALID, ids=label)
def test_a_rule_finds_nothing_in_a_file_that_keeps_it(path: Path) -> None:
    """Nor does any other find an error there."""
    said = _said(path)

    assert path.parent.name not in {each.code for each in said}
    assert [each.message for each in said if each.is_error] == []


@bundle("path", INVALID, ids=label)
def test_a_rule_says_exactly_what_is_wrong(path: Path) -> None:
    """The place, the words, the hint; and little beside it."""
    assert path.parent.name in {each.code for each in _said(path)}
    assert _rendered(path) == path.with_suffix(".txt").read_text()


def test_a_fix_removes_what_it_was_offered_for() -> None:
    """And adds no error; for each of these codes one is offered."""
    fixed = set()
    for path in INVALID:
        text, said = path.read_text(), _said(path)
        for each in said:
            if each.fix is None or each.file != str(path):
                continue
            at = each.fix.span.offset
            mended = text[:at] + each.fix.text + text[at + each.fix.span.length :]
            left = examine(read_text(mended, str(path), path.parent))[1]

            assert (each.code, each.message) not in [(other.code, other.message) for other in left]
            assert sum(other.is_error for other in left) <= sum(other.is_error for other in said) - each.is_error
            fixed.add(each.code)
    assert fixed == FIXED


def test_every_code_has_both() -> None:
    """A file that is told of it, and one that is not."""
    in_files = {code.code for code in CODES if code.in_files and not (code.loop or code.pattern or code.system)}

    assert {path.parent.name for path in VALID} == in_files
    assert {path.parent.name for path in INVALID} == in_files


def test_every_code_that_can_be_given_is_described() -> None:
    """Whatever reading, checks, planning, proofs and commands report is in the table, and nothing else is."""
    described = {code.code for code in CODES}
    given = set(_given())

    assert given - described == set()
    assert (
        described - given - {f"unknown-{sort}" for sort in ("artifact", "retrieval", "skill", "store", "tool")} == set()
    )


def test_a_code_is_as_bad_as_the_table_says() -> None:
    """Wherever it is shown."""
    for path in INVALID:
        for each in _said(path):
            assert each.severity is SEVERITIES[each.code] or each.code in SOFTER, each


def test_every_rule_has_a_code_and_says_what_it_asks_for() -> None:
    """The pages are made of that."""
    assert {code.rule for code in CHECKING} <= set(rules(of_system=True))
    for rule in rules(of_system=True):
        assert (rule.__doc__ or "").strip()
    assert all(code.meaning.endswith(".") for code in CODES)


def _said(path: Path) -> tuple[Diagnostic, ...]:
    return examine(read(path))[1]


def _rendered(path: Path) -> str:
    text = path.read_text()
    folder = str(path.parent)
    return "".join(each.render(text) for each in _said(path)).replace(f"{folder}/", "").replace(folder, ".")


_CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")
_FIRST = {"error", "warning", "note", "_error", "_warning", "_note", "_bad", "Fault", "Finding"}
"""Calls whose first argument is the code; others have it among their arguments."""
_MAKES = re.compile(rf"\b({'|'.join((*_FIRST, '_Wrong', 'Unreadable'))})\(\s*\"")


def _given() -> Iterator[str]:
    """The codes that modules report, by their calls."""
    for module in Path(coterie.__file__).parent.rglob("*.py"):
        text = module.read_text()
        for call in ast.walk(ast.parse(text)) if _MAKES.search(text) or module.parent.name == "system" else ():
            if isinstance(call, ast.Dict | ast.Tuple) and module.parent.name == "system":  # codes by field
                yield from _codes_among(call)
            elif isinstance(call, ast.Call):
                yield from _codes(call, getattr(call.func, "attr", getattr(call.func, "id", "")))


def _codes_among(values: ast.Dict | ast.Tuple) -> Iterator[str]:
    for each in values.values if isinstance(values, ast.Dict) else values.elts:
        text = getattr(each, "value", None)
        if isinstance(text, str) and text in SEVERITIES:
            yield text


def _codes(call: ast.Call, name: str) -> Iterator[str]:
    texts = [each for each in (*call.args, *(word.value for word in call.keywords)) if isinstance(each, ast.Constant)]
    for text in texts[:1] if name in _FIRST else texts if name in ("_Wrong", "Unreadable") else ():
        if isinstance(text.value, str) and _CODE.fullmatch(text.value) and ("-" in text.value or name in _FIRST):
            yield text.value


if __name__ == "__main__":
    for file in INVALID:
        file.with_suffix(".txt").write_text(_rendered(file))
