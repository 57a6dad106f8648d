"""A file as an editor has it, saved or not, and what can be found out about it.

A document never changes: a keystroke makes the next one. What is asked of it is found once, when it is first needed, so
all that an editor asks between two keystrokes costs one reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lsprotocol.types import TextDocumentContentChangeEvent

from coterie import planning
from coterie.diagnostics import Diagnostic
from coterie.formats import Source, read_text
from coterie.formats.at.tree import File
from coterie.lsp.names import Names, names_in
from coterie.lsp.positions import LineIndex
from coterie.planning.plan import Plan
from coterie.topology.checks.facts import Facts
from coterie.topology.model import Topology


@dataclass(frozen=True)
class Document:
    """One version of a file.

    Attributes:
        path: Where it lies; None for one that was never saved. Paths inside it begin at its folder.
        version: The editor's own count of changes.
    """

    text: LineIndex
    path: Path | None = None
    version: int = 0

    @classmethod
    def of(cls, content: str, path: Path | None = None) -> "Document":
        """A document with *content*, counted as UTF-16, as editors do."""
        return cls(LineIndex(content), path)

    def changed(self, changes: Sequence[TextDocumentContentChangeEvent], version: int = 0) -> "Document":
        """The document after *changes*, each made to what the one before left."""
        text = self.text
        for change in changes:
            text = text.changed(change)
        return replace(self, text=text, version=version)

    @cached_property
    def source(self) -> Source:
        """What was read, with its tree."""
        file = str(self.path) if self.path is not None else ""
        return read_text(self.text.content, file, self.path.parent if self.path is not None else None)

    @property
    def tree(self) -> File:
        """The syntax tree."""
        assert self.source.tree is not None  # there is a text
        return self.source.tree

    @cached_property
    def examined(self) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
        """The plan, if it can be run, and all that `coterie topology validate` would say."""
        return planning.examine(self.source)

    @property
    def plan(self) -> Plan | None:
        """The plan, if it can be run."""
        return self.examined[0]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What `coterie topology validate` would say of the file, were it saved."""
        return self.examined[1]

    @cached_property
    def facts(self) -> Facts:
        """What is known of the team, its parts in other files included; of none that can be read, nothing."""
        return Facts(self.source.topology or Topology(name=""))

    @cached_property
    def names(self) -> Names:
        """Every name, and where it stands."""
        return names_in(self.tree)
