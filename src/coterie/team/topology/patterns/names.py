"""The names of the built-in patterns."""

from collections.abc import Mapping
from enum import StrEnum


class TopologyType(StrEnum):
    """The type of a team; its stored name is the name of its module. Files may also use the member's name."""

    DEBATE = "debate"
    CHAIN_OF_COMMAND = "chain"
    DELEGATION = "delegation"
    ENSEMBLE = "ensemble"
    PIPELINE = "pipeline"
    CROSS_CHECK = "crosscheck"
    COMPOUND = "compound"

    @property
    def class_name(self) -> str:
        """How the names of its classes begin: `ChainOfCommand`."""
        return self.name.title().replace("_", "")


TYPES: Mapping[str, str] = {word: one.value for one in TopologyType for word in (one.value, one.name.lower())}
"""The stored name of a type by each word for it in files."""


def words() -> tuple[str, ...]:
    """Every word for a type."""
    return tuple(TYPES)
