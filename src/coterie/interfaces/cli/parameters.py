"""The parameters of commands as data: the one table that the parser, help, completion and the reference page read.

A command is a function whose parameters are annotated with `Arg`, `Opt` or `Behind`, alone or as fields of a `Struct`,
which is a group of options.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter, signature
from math import inf
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

Command = Callable[..., int]

HELP = ("-h", "--help")
"""The option that every command has."""


class Declared(Struct, frozen=True):
    """How a parameter is written on the command line.

    Attributes:
        text: As help shows it: `FILE`, `-b, --backend B`, or `--park / --no-park` for the two values of a flag.
        help: Its meaning.
        min, max: The bounds of a number.
        parser: Makes the value of a word; its `ValueError` says what is wrong with the word.
        is_value: If its value is optional, whether the next word is its value. Without one the value is empty.
        takes_options: If the words after it are values even if they begin with a dash, except for known options;
            *names_options*: its own words, too.
    """

    text: str
    help: str
    min: float = -inf
    max: float = inf
    parser: Callable[[str], Any] | None = None
    is_value: Callable[[str], bool] | None = None
    takes_options: bool = False
    names_options: bool = False


class Arg(Declared, frozen=True):
    """A parameter without a name on the command line. A list takes all words that are left, and is the last one."""


class Opt(Declared, frozen=True):
    """A parameter with a name on the command line. A list takes a value each time it is given."""


class Behind(Declared, frozen=True):
    """The words behind `--`, which are values of arguments in commands without such a parameter."""


class Declaration(NamedTuple):
    """A parameter of a command, alone or from one of its option groups.

    Attributes:
        kind: Its type, without None.
        default: `Parameter.empty` if a value is required.
        group: The parameter of the function that takes its option group; empty for one alone.
    """

    name: str
    kind: Any
    declared: Declared
    default: Any
    group: str = ""

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        """Whether it takes any number of values."""
        return get_origin(self.kind) is list

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is Parameter.empty

    @property
    def options(self) -> Mapping[str, bool]:
        """The words that name it if it is an option, each with its value if it takes none."""
        halves = self.declared.text.split(" / ") if isinstance(self.declared, Opt) else ()
        words = [(word.rstrip(","), n == 0) for n, half in enumerate(halves) for word in half.split()]
        return {word: value for word, value in words if word.startswith("-")}

    @property
    def word(self) -> str:
        """Its name in messages: of an option the longest one, else as help shows it."""
        return max((word for word, value in self.options.items() if value), key=len, default=self.declared.text)

    @property
    def example(self) -> str:
        """What to type: `--older-than AGE`, or of an argument what help shows."""
        return f"{self.word}{self.declared.text.partition(self.word)[2]}"

    @property
    def usage(self) -> str:
        """An argument as the usage has it."""
        text = self.declared.text + " …" * (self.is_list and "[" not in self.declared.text)
        return text if self.is_required or "[" in text else f"[{text}]"

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that are valid; empty if any may be."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def value(self, word: str) -> Any:
        """Return the value of *word*; of a list one of its values.

        Raises:
            ValueError: If *word* is not valid.
        """
        kind = get_args(self.kind)[0] if self.is_list else self.kind
        if self.declared.parser is not None:
            return self.declared.parser(word)
        if kind in (int, float):
            return number(kind, word, self.declared.min, self.declared.max)
        if self.choices and word not in self.choices:
            raise ValueError(f"{word!r} is not one of {', '.join(map(repr, self.choices))}")
        return word if self.choices else kind(word)


def number(kind: type[int] | type[float], word: str, low: float = -inf, high: float = inf, also: str = "") -> float:
    """Return the number in *word*.

    Raises:
        ValueError: If it is not from *low* to *high*; *also* names other valid words.
    """
    with suppress(ValueError):
        if low <= (found := kind(word)) <= high and found != inf and "_" not in word:
            return found
    bounds = f" from {low}" * (low > -inf) + f" to {high}" * (high < inf)
    raise ValueError(f"{word!r} is not a {'whole ' * (kind is int)}number{bounds}{also}")


def option_group(annotation: Any) -> tuple[FieldInfo, ...]:
    """Return the fields of *annotation*; empty if it is no group of options."""
    return fields(annotation) if hasattr(annotation, "__struct_fields__") else ()


def declarations(command: Command) -> Iterator[Declaration]:
    """Yield the parameters of *command*, those of its option groups one by one."""
    for name, each in signature(command).parameters.items():
        group = option_group(each.annotation)
        for field in group:
            yield _declaration(field.name, field.type, field.default, name)
        if not group:
            yield _declaration(name, each.annotation, each.default)


def _declaration(name: str, annotation: Any, default: Any, group: str = "") -> Declaration:
    kinds = get_args(annotation.__origin__)
    kind = kinds[0] if NoneType in kinds else annotation.__origin__
    return Declaration(name, kind, annotation.__metadata__[0], default, group)


def bound(command: Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of *command* from the *values* of its parameters, by name; each is optional."""
    arguments: dict[str, Any] = {}
    for name, each in signature(command).parameters.items():
        if group := option_group(each.annotation):
            arguments[name] = each.annotation(**{one.name: values[one.name] for one in group if one.name in values})
        elif name in values:
            arguments[name] = values[name]
    return arguments
