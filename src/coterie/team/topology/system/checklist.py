"""The list of checks that `coterie topology validate` prints for a supervised system."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from coterie.base.diagnostics import Diagnostic
from coterie.team.topology.system.fields import SupervisorFields
from coterie.team.topology.system.model import System

_SYNTAX = (
    "not-yaml",
    "too-deep",
    "too-large",
    "bad-key",
    "bad-tag",
    "duplicate-field",
    "unreadable-file",
)
_STRUCTURE = ("no-supervision", "empty-supervisor", "bad-node", "two-kinds")
_NAMING = ("missing-name", "missing-type", "bad-name", "duplicate-name", "name-conflict")


class CheckGroup(Struct, frozen=True):
    """A group of checks.

    Attributes:
        passed: The usual checks without an error.
        found: The diagnostics of the group.
    """

    title: str
    passed: tuple[str, ...]
    found: tuple[Diagnostic, ...]


def checklist(system: System | None, found: Sequence[Diagnostic]) -> tuple[CheckGroup, ...]:
    """The groups of checks of *system*, which is None if its tree could not be read."""
    wrong = {diagnostic.code for diagnostic in found if diagnostic.is_error}
    groups: dict[str, list[str]] = {"Structure": [], "Naming": [], "Configuration": []}
    for group, label, codes in _checks(system, wrong):
        if wrong.isdisjoint(codes):
            groups[group].append(label)
    return tuple(
        CheckGroup(title, tuple(passed), tuple(one for one in found if _group(one.code) == title))
        for title, passed in groups.items()
    )


def _checks(system: System | None, wrong: set[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The checks to list: group, label, and the codes of their errors."""
    yield "Structure", "YAML syntax", _SYNTAX
    if not wrong.isdisjoint(_SYNTAX) and system is None:
        return
    yield "Structure", "Supervision section present", ("no-supervision",)
    if system is None:
        return
    yield "Structure", "No empty supervisors", ("empty-supervisor",)
    yield "Structure", "Supervision tree well-formed", ("bad-node", "two-kinds", "empty-supervisor")
    yield "Naming", "All agents named", ("missing-name", "missing-type", "bad-name")
    yield "Naming", "No duplicate names", ("duplicate-name",)
    yield "Naming", "No agent/supervisor name conflicts", ("name-conflict",)
    used = sorted({node.fields.strategy for node in system.supervisors if isinstance(node.fields, SupervisorFields)})
    yield "Configuration", f"Strategies valid ({', '.join(used)})", ("bad-strategy",)
    yield "Configuration", "Backoff policies valid", ("bad-backoff",)
    yield "Configuration", f"Transport config valid — {system.transport.type}", ("bad-transport", "repeated-address")


def _group(code: str) -> str:
    if code in _SYNTAX or code in _STRUCTURE:
        return "Structure"
    return "Naming" if code in _NAMING else "Configuration"
