"""A text that was read: its topology and its diagnostics."""

from dataclasses import field

from coterie.diagnostics import Diagnostic
from coterie.errors import TopologyError
from coterie.formats.at.tree import File
from coterie.topology.composition import located
from coterie.topology.model import Topology
from coterie.values import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A text, its topology, and its diagnostics.

    Attributes:
        text: The whole text; empty if unreadable.
        file: The path as given by the user.
        topology: None if the text contains none.
        diagnostics: In text order; those of the whole file come first, those of included files last, with their
            file's name.
        tree: The syntax tree of this text alone, for editors; None without a text.
    """

    text: str
    file: str
    topology: Topology | None
    diagnostics: tuple[Diagnostic, ...]
    tree: File | None = field(default=None, compare=False, repr=False)

    @property
    def has_errors(self) -> bool:
        """Whether there is an error, so it cannot run."""
        return any(diagnostic.is_error for diagnostic in self.diagnostics)

    def valid(self) -> Topology:
        """The topology.

        Raises:
            TopologyError: If there is an error, or no topology; it carries everything that was found.
        """
        if self.topology is None or self.has_errors:
            raise TopologyError(self.diagnostics, self.text)
        return self.topology

    def located(self, found: Diagnostic) -> Diagnostic:
        """Diagnostics *found* later in the topology, located in this file or an included one."""
        return located(found, self.topology.included if self.topology is not None else (), self.file)
