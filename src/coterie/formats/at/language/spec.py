"""How the notation is described: blocks, their fields, and what a field may hold. Pure data."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct


class TextType(Struct, frozen=True, kw_only=True):
    """A text, quoted or not; *empty* texts say nothing."""

    words: str = "a text"


class WordType(Struct, frozen=True, kw_only=True):
    """A text without blanks."""

    words: str = "a word"


class WordsType(Struct, frozen=True, kw_only=True):
    """A list of texts; one alone counts as a list of one.

    Attributes:
        names: They name something, so the place of each is remembered.
    """

    words: str = "a list"
    names: bool = False


class NumberType(Struct, frozen=True, kw_only=True):
    """A number between two bounds, both included unless the lower is *above*."""

    low: float | None = None
    high: float | None = None
    above: bool = False

    @property
    def words(self) -> str:
        """Its bounds in words."""
        if self.low is None:
            return "a number"
        if self.high is None:
            return f"a number {'above' if self.above else 'from'} {self.low:g}"
        return f"a number {'above' if self.above else 'from'} {self.low:g} to {self.high:g}"


class CountType(Struct, frozen=True, kw_only=True):
    """A whole number."""

    low: int = 0

    @property
    def words(self) -> str:
        """Its bound in words."""
        return f"a whole number, {self.low} or more"


class DurationType(Struct, frozen=True, kw_only=True):
    """A time, read as seconds; a bare number counts *bare* where the notation allows one."""

    bare: Literal["", "seconds"] = ""
    words: str = "a duration: 30s, 5m, 1h, 2d"


class FlagType(Struct, frozen=True, kw_only=True):
    """True or false."""

    words: str = "true or false"


class OneOf(Struct, frozen=True):
    """One of some words; where these are *open*, another is only doubtful."""

    choices: tuple[str, ...]
    open: bool = False

    @property
    def words(self) -> str:
        """The words."""
        return " | ".join(self.choices) + (" | …" if self.open else "")


class RateType(Struct, frozen=True, kw_only=True):
    """So many per time."""

    words: str = "a rate: 60/min; per sec, min, hour or day"


class JoinType(Struct, frozen=True, kw_only=True):
    """How many of the arrows into a node must have come."""

    words: str = "all | any | all-done | none-failed | N-of-M"


class PolicyType(Struct, frozen=True):
    """What follows when something goes wrong: one of some words, or another node."""

    choices: tuple[str, ...]
    also: str = ""

    @property
    def words(self) -> str:
        """The words."""
        return " | ".join((*self.choices, "fallback NAME"))


class Values(Struct, frozen=True, kw_only=True):
    """A block of names and values of any form."""

    words: str = "a block: { name: value }"


class SchemaFields(Struct, frozen=True, kw_only=True):
    """A block of names and types."""

    words: str = "a block: { name: type }; string, number, integer, boolean, object, a | b, array of TYPE, a schema"


class Own(Struct, frozen=True, kw_only=True):
    """Read in its own way; the reader of its block knows it.

    Attributes:
        block: The block that it may be, if it is described.
    """

    words: str
    block: "BlockSpec | None" = None


class Inner(Struct, frozen=True):
    """A block within; a text alone counts as its field *short*."""

    block: "BlockSpec"
    short: str = ""

    @property
    def words(self) -> str:
        """A block, by its fields."""
        return f"a block: {{ {'  '.join(field.name + ': …' for field in self.block.fields)} }}"


class Many(Struct, frozen=True):
    """A block that holds nothing but entries."""

    entries: "Entries"

    @property
    def words(self) -> str:
        """A block, by its entries."""
        return f"a block: {{ {self.entries.shape} }}"


Kind = (
    TextType
    | WordType
    | WordsType
    | NumberType
    | CountType
    | DurationType
    | FlagType
    | OneOf
    | RateType
    | JoinType
    | PolicyType
    | Values
    | SchemaFields
    | Own
    | Inner
    | Many
)
"""What a field may hold."""


class FieldSpec(Struct, frozen=True):
    """A field of a block.

    Attributes:
        about: What it means, in one line.
        default: What holds without it, in words; empty: nothing.
        executed: It has effect; else it is read, kept and shown.
        model_only: It has effect where a model is asked.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    executed: bool = False
    model_only: bool = False


class Entries(Struct, frozen=True):
    """Blocks with names of their own within a block.

    Attributes:
        word: What stands before the name; empty for a name alone.
        bare: The word may be left out.
        labelled: A text stands behind the name.
    """

    word: str
    block: "BlockSpec"
    bare: bool = False
    labelled: bool = False

    @property
    def shape(self) -> str:
        """How one is written."""
        head = f"{self.word} NAME" if self.word else "NAME"
        return f"{head}{' LABEL' if self.labelled else ''} {{ … }}"


class BlockSpec(Struct, frozen=True, dict=True):
    """A block: its keyword, what it is for, what it may say.

    Attributes:
        named: A name stands behind the keyword, so there may be several.
        open: What it does not know is kept without a word.
        executed: It has effect; else it is read, kept and shown.
        example: How it may look, in one line.
    """

    name: str
    about: str
    fields: tuple[FieldSpec, ...] = ()
    entries: tuple[Entries, ...] = ()
    named: bool = False
    open: bool = False
    executed: bool = False
    example: str = ""

    @cached_property
    def by_name(self) -> Mapping[str, FieldSpec]:
        """Its fields by name."""
        return {field.name: field for field in self.fields}


class AttributeSpec(Struct, frozen=True):
    """An attribute of an arrow: `max 3`."""

    name: str
    shape: str
    about: str
    executed: bool = False
