"""An open file, saved or not, and the values derived from it.

A document is immutable: each edit creates a new one. Derived values are computed on first use and cached, so all
requests between two edits parse the file once.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from lsprotocol.types import TextDocumentContentChangeEvent
from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic
from coterie.interfaces.lsp.names import Names, names_in
from coterie.interfaces.lsp.positions import LineIndex
from coterie.team import planning
from coterie.team.formats import Source, read_text
from coterie.team.formats.at import parse
from coterie.team.formats.at.tree import File
from coterie.team.planning.plan import Plan
from coterie.team.topology.checks.facts import Facts
from coterie.team.topology.model import Topology


class Document(Struct, frozen=True, dict=True):
    """One version of a file.

    Attributes:
        path: Its path; None if it was never saved. Paths in it are relative to its folder.
        version: The editor's version number.
    """

    text: LineIndex
    path: Path | None = None
    version: int = 0

    @classmethod
    def of(cls, content: str, path: Path | None = None) -> "Document":
        """A document with *content* and the default encoding of positions, UTF-16."""
        return cls(LineIndex(content), path)

    def changed(self, changes: Sequence[TextDocumentContentChangeEvent], version: int = 0) -> "Document":
        """The document after *changes*, applied in order."""
        text = self.text
        for change in changes:
            text = text.changed(change)
        return replace(self, text=text, version=version)

    @cached_property
    def source(self) -> Source:
        """The file as read, with its tree."""
        file = str(self.path) if self.path is not None else ""
        return read_text(self.text.content, file, self.path.parent if self.path is not None else None)

    @property
    def is_yaml(self) -> bool:
        """Whether it is a YAML file, which is completed and formatted by other tools."""
        return self.source.tree is None

    @cached_property
    def tree(self) -> File:
        """The syntax tree; for YAML the tree of an empty file."""
        return self.source.tree or parse("").tree

    @cached_property
    def examined(self) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
        """The plan, if it can run, and the diagnostics of `coterie topology validate`."""
        return planning.examine(self.source)

    @property
    def plan(self) -> Plan | None:
        """The plan, if it can run."""
        return self.examined[0]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of `coterie topology validate`, as if the file were saved."""
        return self.examined[1]

    @cached_property
    def facts(self) -> Facts:
        """Facts about the team, including its parts in other files; the facts of an empty team if it cannot be read."""
        return Facts(self.source.topology or Topology(name=""))

    @cached_property
    def names(self) -> Names:
        """Every name and its occurrences."""
        return names_in(self.tree)
