"""The base class of the configurations of patterns, and the types of their fields.

The rest of Coterie uses methods and attributes of the configuration to query a pattern. A pattern defines those that
apply to it; a user-defined pattern needs none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of

if TYPE_CHECKING:
    from coterie.team.topology.model import ArrowGroup

Share = Annotated[float, Meta(ge=0, le=1)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
UpToTen = Annotated[int, Meta(ge=1, le=10)]

Consensus = Literal["majority", "unanimous", "weighted", "mediator", "first_agree"]
Aggregation = Literal["vote", "average", "weighted", "concat", "best_of", "synthesis"]
Weights = Literal["log_odds", "linear", "uniform"]

Idle = tuple[bool, str, str]
"""A setting that may have no effect: whether this is so, its name, and the reason."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a pattern: frozen, and unknown fields are errors.

    Attributes:
        checks_answers: Whether the pattern checks the given answer if the input has an `answer` and a `question`.
    """

    checks_answers: ClassVar[bool] = False

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Faults of the slots *names*, in order."""
        yield from ()

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings that may have no effect; *written* are those in the file."""
        yield from ()

    def handoffs(self, names: Sequence[str]) -> "Iterator[ArrowGroup]":
        """Arrows between slots for a picture, except arrows to unknown slots."""
        yield from ()

    def input_faults(
        self, title: str, keys: Sequence[str], capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
    ) -> Iterator[Fault]:
        """Faults of the input *given*, whose task is in one of *keys*; *capabilities* by slot, in order."""
        if keys and not task_of(keys, given):
            wanted = " or ".join(f"`{key}`" for key in keys)
            yield Fault("missing-input", f"{title} needs an input {wanted}", hint=f"--input {keys[0]}=…")

    def plan_faults(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
        """Faults that are known once the slots are filled; *outputs* are the result keys of patterns at slots."""
        yield from ()

    def same_input(self, names: Sequence[str], given: Mapping[str, Any]) -> Iterator[str]:
        """The slots that get the pattern's own input, and whose failure fails it."""
        yield from ()

    def takes_all(self, names: Sequence[str], takes: Mapping[str, bool]) -> bool:
        """Whether it accepts any input; *takes* has the same for the patterns at slots."""
        return False

    def all_retries(self) -> int | None:
        """The retries of every agent, overriding the agent's own; None: the agent's own."""
        return None

    def idle_stop(self, names: Sequence[str]) -> str:
        """Why ending early cannot save a turn although it is set; empty if it can."""
        return ""


def arrow(source: str, targets: Sequence[str], most: int | None = None, what: str = "") -> "ArrowGroup":
    """An arrow of a picture, taken at most *most* times, labelled *what*."""
    from coterie.team.topology.model import ArrowGroup

    return ArrowGroup(source=source, targets=tuple(targets), max=most, kept={what: True} if what else {})
