"""A team whose result has a type of Python."""

from dataclasses import field
from typing import Any, Generic, TypeVar

from coterie.topology.model import Topology
from coterie.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFlow(Topology, Generic[T]):
    """A flow whose result is a value of a type; `coterie.flow` makes one.

    Attributes:
        result: The type, that of the answers of its exit.
    """

    result: type[T] | Any = field(default=None, compare=False)
