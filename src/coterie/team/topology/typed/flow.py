"""A team whose result has a type of Python."""

from typing import Any, Generic, TypeVar

from coterie.team.topology.model import Topology

T = TypeVar("T")


class TypedFlow(Topology, Generic[T], frozen=True, kw_only=True):
    """A flow whose result is a value of a type; `coterie.flow` makes one.

    Attributes:
        result: The type, that of the answers of its exit.
    """

    uncompared = Topology.uncompared | {"result"}

    result: type[T] | Any = None

    @property
    def answered_by(self) -> str:
        """The agent whose answer is the result; empty: there is none."""
        return self.interface.exit if self.interface is not None else ""
