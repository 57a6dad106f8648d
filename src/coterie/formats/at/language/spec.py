"""Data types that describe the notation: blocks, their fields, and the kinds of values."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

KindName = Literal[
    "text", "word", "list", "names", "number", "count", "duration", "seconds", "flag", "one", "rate", "join",
    "policy", "values", "schema", "own", "block", "entries",
]  # fmt: skip
"""The first word of a kind in `notation.txt`."""


class FieldKind(Struct, frozen=True):
    """The kind of value that a field holds.

    Attributes:
        words: What it is, for pages and editors.
        choices: The words it may be.
        open: Another word than *choices* is only a warning.
        low: The smallest number allowed, *high* the largest.
        block: The block it may be; of `own`, None unless described.
        short: The field of *block* that a bare text sets.
        entries: The content of a block of entries.
        deprecated: One more choice, which is not advertised.
    """

    name: KindName
    words: str
    choices: tuple[str, ...] = ()
    open: bool = False
    low: int = 0
    high: int | None = None
    block: "BlockSpec | None" = None
    short: str = ""
    entries: "Entries | None" = None
    deprecated: str = ""


class FieldSpec(Struct, frozen=True):
    """A field of a block.

    Attributes:
        about: Its meaning, in one line.
        default: The value without it, in words; empty: none.
        executed: It has an effect; other fields are read, kept and shown.
        model_only: It has an effect only where a model runs the agent.
    """

    name: str
    kind: FieldKind
    about: str
    default: str = ""
    executed: bool = False
    model_only: bool = False


class Entries(Struct, frozen=True):
    """Named blocks within a block.

    Attributes:
        word: The keyword before the name; empty if there is none.
        bare: The keyword may be omitted.
        labelled: A text follows the name.
    """

    word: str
    block: "BlockSpec"
    bare: bool = False
    labelled: bool = False

    @property
    def shape(self) -> str:
        """The form of an entry."""
        head = f"{self.word} NAME" if self.word else "NAME"
        return f"{head}{' LABEL' if self.labelled else ''} {{ … }}"


class BlockSpec(Struct, frozen=True, dict=True):
    """A block: its keyword, purpose and content.

    Attributes:
        named: A name follows the keyword, so there may be several.
        open: Unknown fields are kept without a warning.
        executed: It has an effect; other blocks are read, kept and shown.
        example: An example in one line.
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
