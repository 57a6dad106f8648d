"""A text that was read: its topology and its diagnostics."""

from coterie.base.diagnostics import Diagnostic, Located
from coterie.errors import TopologyError
from coterie.team.formats.at.tree import File
from coterie.team.topology.composition import located
from coterie.team.topology.model import Topology


class Source(Located, frozen=True):
    """A text, its topology, and its diagnostics.

    Attributes:
        text: The whole text; empty if unreadable.
        file: The path as given by the user.
        topology: None if the text contains none.
        diagnostics: In text order; those of the whole file come first, those of included files last, with their
            file's name.
        tree: The syntax tree of this text alone, for editors; None without a text.
    """

    uncompared = unshown = frozenset({"tree"})

    text: str
    file: str
    topology: Topology | None
    diagnostics: tuple[Diagnostic, ...]
    tree: File | None = None

    @property
    def has_errors(self) -> bool:
        """Whether there is an error, so it cannot run."""
        return any(diagnostic.is_error for diagnostic in self.diagnostics)

    def valid(self) -> Topology:
        """The topology.

        Raises:
            TopologyError: If there is an error, or no topology; it has all diagnostics.
        """
        if self.topology is None or self.has_errors:
            raise TopologyError(self.diagnostics, self.text)
        return self.topology

    def located(self, found: Diagnostic) -> Diagnostic:
        """Diagnostics *found* later in the topology, located in this file or an included one."""
        return located(found, self.topology.included if self.topology is not None else (), self.file)
