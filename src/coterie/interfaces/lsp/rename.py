"""Rename a symbol everywhere in a file, or refuse with a reason."""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from coterie.errors import UsageError
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.locations import included_declaration
from coterie.interfaces.lsp.names import NameKind, Names, Occurrence, Symbol
from coterie.team.planning.agents import role_of
from coterie.team.topology.model import Agent, Gate

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_OPEN = frozenset({NameKind.NODE, NameKind.OUTPUT, NameKind.VALUE})
"""Kinds that can be renamed without a declaration; an undeclared tool or skill belongs to another system."""


class Edit(Struct, frozen=True):
    """Replace *length* characters at *offset* by *text*."""

    offset: int
    length: int
    text: str


def renamable(document: Document, offset: int) -> Occurrence:
    """The name at *offset*.

    Raises:
        UsageError: If there is none, or it cannot be changed.
    """
    one = document.names.at(offset)
    if one is None:
        raise UsageError("there is no name here")
    symbol = one.symbol
    declared = document.names.declarations(symbol)
    if any(each.fixed for each in declared):
        raise UsageError(f"the orchestrator is always called {symbol.name!r}")
    if symbol.kind not in _OPEN and not declared:
        raise UsageError(f"the {symbol.kind.value} {symbol.name!r} is not declared in this file")
    if not declared and (elsewhere := included_declaration(document, symbol)) is not None:
        raise UsageError(f"{symbol.name!r} is declared in {elsewhere.path}")
    if symbol.kind is NameKind.OUTPUT and not declared:
        if isinstance(document.facts.declared.get(symbol.owner), Gate):
            raise UsageError(f"what a gate gives back is always called {symbol.name!r}")
        if document.facts.output(symbol.owner, symbol.name) is not None:
            raise UsageError(f"what {symbol.owner!r} gives back is declared in another file")
    return one


def rename(document: Document, offset: int, name: str) -> list[Edit]:
    """The edits that rename the symbol at *offset* to *name*, in text order.

    The file keeps its meaning; a rename that would change it is refused.

    Raises:
        UsageError: With the reason, if it is refused.
    """
    symbol = renamable(document, offset).symbol
    if name == symbol.name:
        return []
    _check(document, symbol, name)
    edits = [Edit(one.offset, one.length, name) for one in document.names.of(symbol)]
    after = Document.of(apply(document.text.content, edits), document.path)
    if not _same_names(document.names, after.names, symbol, name):
        raise UsageError(f"with the name {name!r} the file would have a different meaning")
    _check_roles(document, after)
    _check_findings(document, after)
    return edits


def apply(text: str, edits: Sequence[Edit]) -> str:
    """*text* after *edits*, which are in text order and do not overlap."""
    pieces, end = [], 0
    for edit in edits:
        pieces += [text[end : edit.offset], edit.text]
        end = edit.offset + edit.length
    return "".join([*pieces, text[end:]])


def _check(document: Document, symbol: Symbol, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name: it begins with a letter and contains only a-z, A-Z, 0-9, '_' and '-'"
        )
    if symbol.kind is NameKind.NODE and name in ("run", "phase"):
        raise UsageError(f"{name!r} means something else after 'per': choose another name")
    if symbol.kind is NameKind.VALUE and name in ("true", "false"):
        raise UsageError(f"{name!r} is no text: choose another name")
    taken = replace(symbol, name=name)
    if document.names.of(taken) or included_declaration(document, taken) is not None:
        owner = f" of {symbol.owner!r}" if symbol.owner else ""
        raise UsageError(f"{name!r} is the name of another {symbol.kind.value}{owner}")


def _same_names(before: Names, after: Names, symbol: Symbol, name: str) -> bool:
    """Whether *after* has the names of *before* at the same positions, with *symbol* renamed to *name*."""
    expected, shift = [], 0
    for one in before.all:
        length = len(name) if one.symbol == symbol else one.length
        mapped = _mapped(one.symbol, symbol, name)
        expected.append(replace(one, symbol=mapped, offset=one.offset + shift, length=length))
        shift += length - one.length
    return expected == after.all


def _mapped(one: Symbol, symbol: Symbol, name: str) -> Symbol:
    """*one* after *symbol* is renamed to *name*, with its owner renamed as well."""
    if one == symbol:
        return replace(one, name=name)
    owner = one.owner
    if symbol.kind is NameKind.NODE and one.kind is NameKind.OUTPUT and owner == symbol.name:
        owner = name
    elif symbol.kind is NameKind.NODE and one.kind is NameKind.VALUE and owner.startswith(f"{symbol.name}."):
        owner = name + owner[len(symbol.name) :]
    elif symbol.kind is NameKind.OUTPUT and one.kind is NameKind.VALUE and owner == f"{symbol.owner}.{symbol.name}":
        owner = f"{symbol.owner}.{name}"
    return one if owner == one.owner else replace(one, owner=owner)


def _check_roles(before: Document, after: Document) -> None:
    """Refuse if an agent without `role:`, whose name selects its role, would get another role."""
    old, new = before.source.topology, after.source.topology
    if old is None or new is None:
        return
    for was, becomes in zip(old.nodes, new.nodes, strict=True):
        match was, becomes:
            case Agent(), Agent() if role_of(was, old.roles) != role_of(becomes, new.roles):
                raise UsageError(f"the name of agent {was.name!r} chooses its role: write its role: first")


def _check_findings(before: Document, after: Document) -> None:
    """Refuse if there are new diagnostics, as when another file uses or declares the name."""
    known = Counter(one.code for one in before.diagnostics)
    for found in sorted(after.diagnostics, key=lambda one: not one.is_error):
        known[found.code] -= 1
        if known[found.code] < 0:
            raise UsageError(f"then the file would be wrong: {found.message}")
