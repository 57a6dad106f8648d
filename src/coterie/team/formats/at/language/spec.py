"""Data types that describe the notation: blocks, their fields, and the kinds of values."""

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Literal

from msgspec import Struct

KindName = Literal[
    "text", "word", "list", "names", "number", "count", "duration", "seconds", "flag", "one", "rate", "join",
    "policy", "values", "schema", "own", "block", "entries",
]  # fmt: skip
"""How the values of a field are read."""


class FieldKind(Struct, frozen=True):
    """The kind of value that a field holds.

    Attributes:
        words: Its meaning, for pages and editors.
        choices: The words it may be.
        open: Another word than *choices* is only a warning.
        low: The smallest number allowed, *high* the largest.
        block: The block it may be; of `own`, None unless described.
        short: The field of *block* that a bare text sets.
        entries: The content of a block of entries.
        deprecated: One more choice, which is not advertised.
        several: What to write instead of a list, where it is one word.
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
    several: str = ""


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


kept = FieldSpec
"""A field without an effect: it is read, checked, kept and shown."""
works = partial(FieldSpec, executed=True)
"""A field that has an effect."""
model = partial(FieldSpec, executed=True, model_only=True)
"""A field that has an effect where a model runs the agent."""


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

    def pick(self, *names: str) -> tuple[FieldSpec, ...]:
        """Its fields *names*, in its order."""
        return tuple(field for field in self.fields if field.name in names)


class AttributeSpec(Struct, frozen=True):
    """An attribute of an arrow: `max 3`."""

    name: str
    shape: str
    about: str
    executed: bool = False


# -- the kinds of values -----------------------------------------------------------------------------------------------

TEXT = FieldKind("text", "a text")
WORD = FieldKind("word", "a word")
"""A text without blanks."""
GATED = FieldKind("word", "a word", several="write two gates, each with one of them")
"""A node beside a gate."""
LIST = FieldKind("list", "a list")
"""Of texts; a bare text is a list of one."""
NAMES = FieldKind("names", "a list")
"""A list with the span of each item."""
NUMBER = FieldKind("number", "a number")
DURATION = FieldKind("duration", "a duration: 30s, 5m, 1h, 2d")
SECONDS = FieldKind("seconds", "a duration: 30s, 5m, 1h, 2d")
"""A duration, or a bare number of seconds."""
FLAG = FieldKind("flag", "true or false", ("true", "false"))
RATE = FieldKind("rate", "a rate: 60/min; per sec, min, hour or day")
JOIN = FieldKind("join", "all | any | all-done | none-failed | N-of-M", ("all", "any", "all-done", "none-failed"))
"""How many incoming arrows a node waits for."""
VALUES = FieldKind("values", "a block: { name: value }")
SCHEMA = FieldKind(
    "schema", "a block: { name: type }; string, number, integer, boolean, object, a | b, array of TYPE, a schema"
)


def number(low: int, high: int) -> FieldKind:
    """A number from *low* to *high*."""
    return FieldKind("number", f"a number from {low} to {high}", low=low, high=high)


def count(low: int) -> FieldKind:
    """A whole number from *low*."""
    return FieldKind("count", f"a whole number, {low} or more", low=low)


def one_of(*choices: str, open: bool = False) -> FieldKind:
    """One of *choices*, or, where *open*, another word with a warning."""
    return FieldKind("one", " | ".join((*choices, "…") if open else choices), choices, open=open)


def policy(*choices: str, deprecated: str = "") -> FieldKind:
    """One of *choices*, or `fallback NAME`."""
    return FieldKind("policy", " | ".join((*choices, "fallback NAME")), choices, deprecated=deprecated)


def own(words: str, block: BlockSpec | None = None) -> FieldKind:
    """A kind that the reader of its block reads itself, described by *words*."""
    return FieldKind("own", words, block=block)


def inner(block: BlockSpec, short: str = "") -> FieldKind:
    """The kind of a *block*; a bare text sets its field *short*."""
    words = "  ".join(f"{field.name}: …" for field in block.fields)
    return FieldKind("block", f"a block: {{ {words} }}", block=block, short=short)


def entries(of: Entries) -> FieldKind:
    """A block of entries."""
    return FieldKind("entries", f"a block: {{ {of.shape} }}", entries=of)
