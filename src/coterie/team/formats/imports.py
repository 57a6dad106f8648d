"""Read the topologies that a file imports, and create a node for each.

An importer needs to know the parameters and outputs of a topology, so it is read along with the importing file. Each
file is read once, even if it is imported several times with different values.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, error, of_part
from coterie.team.formats.at.directives import ImportStatement
from coterie.team.formats.at.fields import Report
from coterie.team.formats.files import SUFFIXES, Library, Unreadable, find
from coterie.team.formats.source import Source
from coterie.team.topology.checks.composition import outputs_of, unusable
from coterie.team.topology.composition import MAX_DEPTH
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Agent, Import, Topology

MAX_IMPORTS = 1000
"""Maximum number of imported topologies; the same file with the same values counts once."""

MAX_REPORTED = 20
"""Maximum errors of an imported file that are reported at the import, so that they do not multiply."""

Chain = tuple[Path, ...]
"""The files that led to a text, its own file last."""

Imports = Sequence[tuple[ImportStatement, PurePosixPath]]
"""Import statements, each with the folder of its file, relative to the topology's."""

_OF_CHAINS = frozenset({"topology-cycle", "nested-too-deep", "too-many-topologies"})
"""Codes whose messages already name the files."""


class ReadText(Protocol):
    """Reads a text with the files that belong to it."""

    def __call__(
        self, text: str, file: str, folder: Path | None, given: Mapping[str, Scalar], chain: Chain | None = None
    ) -> Source:
        """The source."""


class Importer:
    """Reads the imports of one root file, recursively."""

    def __init__(self, library: Library, read: ReadText) -> None:
        self._library = library
        self._read = read
        self._sources: dict[tuple[Path, str], Source] = {}
        self._begun = 0

    def nodes(self, imports: Imports, folder: Path | None, chain: Chain, report: Report) -> list[Agent]:
        """The nodes that *imports* declare in a topology in *folder*; faults are reported."""
        return [self._node(statement, where, folder, chain, report) for statement, where in imports]

    def _node(
        self, statement: ImportStatement, where: PurePosixPath, folder: Path | None, chain: Chain, report: Report
    ) -> Agent:
        is_file = statement.source.endswith(SUFFIXES)
        source = str(where / statement.source) if is_file else statement.source
        topology = None
        if is_file:
            wrong, topology = self._topology(statement, source, folder, chain)
            for found in wrong:
                report(found)
        return Agent(
            name=statement.alias.text,
            outputs=tuple(replace(each, span=None) for each in outputs_of(topology)) if topology is not None else (),
            extension={"topology": source},
            imported=Import(source=source, given=statement.given, sha256=statement.sha256, topology=topology),
            span=statement.alias.span,
            spans={"extension.topology": statement.span},
        )

    def _topology(
        self, statement: ImportStatement, source: str, folder: Path | None, chain: Chain
    ) -> tuple[list[Diagnostic], Topology | None]:
        """The faults of an import, or its topology if there are none."""
        name, span = statement.source, statement.span
        if folder is None:
            message = f"{name!r} cannot be imported: this text has no folder"
            return [error("no-folder", message, span, "read it from a file")], None
        try:
            path = find(folder, source, folder)
            text = self._library.text(path)
        except Unreadable as unreadable:
            message = f"the imported file {name!r} {unreadable.reason}"
            return [error(unreadable.code, message, span, unreadable.hint)], None
        if statement.sha256 and (found := _sha256(text)) != statement.sha256:
            message = f"{name!r} has changed: its SHA-256 is {found}"
            return [error("wrong-sha256", message, span, "review the change, then write the new SHA-256")], None
        try:
            read = self._source(path, text, source, statement.given, chain)
        except _Refused as refused:
            return [error(refused.code, str(refused), span)], None
        wrong = [_reported(each, name, read.file, span) for each in read.diagnostics if each.is_error][:MAX_REPORTED]
        if read.topology is not None and not wrong:
            wrong = [each for each in (unusable(read.topology, name, span),) if each is not None]
        return wrong, read.topology if not wrong else None

    def _source(self, path: Path, text: str, name: str, given: Mapping[str, Scalar], chain: Chain) -> Source:
        """Read *path* with the values *given*; results are cached.

        Raises:
            _Refused: If it may not be imported here.
        """
        steps = " -> ".join(each.name for each in (*chain, path))
        if path in chain:
            raise _Refused("topology-cycle", f"a topology cannot contain itself: {steps}")
        if len(chain) > MAX_DEPTH:
            raise _Refused("nested-too-deep", f"topologies are nested more than {MAX_DEPTH} deep: {steps}")
        key = (path, repr(sorted(given.items())))
        if key in self._sources:
            return self._sources[key]
        self._begun += 1
        if self._begun > MAX_IMPORTS:
            raise _Refused("too-many-topologies", f"a team can contain at most {MAX_IMPORTS} topologies")
        source = self._sources[key] = self._read(text, name, path.parent, given, (*chain, path))
        return source


class _Refused(Exception):
    """A file may not be imported here."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def _reported(found: Diagnostic, name: str, source: str, span: Span) -> Diagnostic:
    """*found* in the imported file *source* or one that it includes, reported at the import *name*."""
    if found.code in _OF_CHAINS:
        return error(found.code, found.message, span, found.hint)
    return of_part(found, name if found.file == source else found.file, span)


def _sha256(text: str) -> str:
    import hashlib  # rarely needed

    return hashlib.sha256(text.encode()).hexdigest()
