"""The parameters of commands as data, and the parser of plain command lines.

Loading the option parser takes as long as two starts of Python. A command therefore declares its parameters with
`Arg` and `Opt`, and `plain_call` understands command lines whose words need no judgement. `coterie.cli.app`
gives all others, and with them every mistake, to the option parser.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import FieldInfo, fields

Command = Callable[..., int]

_WORDS: Mapping[Any, Callable[[str], Any]] = {
    kind: convert for convert in (str, Path, int, float) for kind in (convert, convert | None)
}
"""The types of values, and how a word becomes one."""
_LISTS: Mapping[Any, Callable[[str], Any]] = {
    kind: convert
    for convert in (str, Path)
    for kind in (list[convert], list[convert] | None)  # type: ignore[valid-type]
}
"""The types of lists, and how a word becomes a member."""
_RESTRICTIONS = {"parser", "min", "max"}
"""Settings that only the option parser checks."""


class Declared:
    """A declaration of a parameter: its names and its settings, those of the option parser."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


class Arg(Declared):
    """A parameter without a name on the command line."""


class Opt(Declared):
    """A parameter with a name on the command line; without names it is `--` and the name of the parameter."""


class Declaration(NamedTuple):
    """A parameter of a command, alone or from one of its option groups.

    Attributes:
        kind: Its type.
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
        return self.kind in (bool, bool | None)

    @property
    def options(self) -> Mapping[str, bool]:
        """The words that name it, each with its value if it takes none."""
        plain = f"--{self.name.replace('_', '-')}"
        names = self.declared.names or (f"{plain}/--no-{plain[2:]}" if self.is_flag else plain,)
        return {word: index == 0 for name in names for index, word in enumerate(name.split("/"))}


def option_group(annotation: Any) -> tuple[FieldInfo, ...] | None:
    """Return the fields of *annotation* if it is a group of options, else None."""
    return fields(annotation) if hasattr(annotation, "__struct_fields__") else None


def declarations(command: Command) -> Iterator[Declaration]:
    """Yield the parameters of *command*, those of its option groups one by one."""
    for name, each in signature(command).parameters.items():
        found = option_group(each.annotation)
        if found is None:
            yield Declaration(name, each.annotation.__origin__, each.annotation.__metadata__[0], each.default)
        for field in found or ():
            kind, declared = field.type.__origin__, field.type.__metadata__[0]
            yield Declaration(field.name, kind, declared, field.default, name)


def bound(command: Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of *command* from the *values* of its parameters, by name; each is optional."""
    arguments: dict[str, Any] = {}
    for name, each in signature(command).parameters.items():
        if (group := option_group(each.annotation)) is not None:
            arguments[name] = each.annotation(**{one.name: values[one.name] for one in group if one.name in values})
        elif name in values:
            arguments[name] = values[name]
    return arguments


def plain_call(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of *command* for *words*; None if it takes the option parser to understand them.

    That is so where an option is abbreviated, repeated, restricted or unknown, or a word is missing or left over.
    """
    known = tuple(declarations(command))
    options = {word: (one, value) for one in known for word, value in one.options.items()}
    values: dict[str, Any] = {}
    given: list[str] = []
    rest = iter(words)
    try:
        for word in rest:
            if word == "-" or not word.startswith("-"):
                given.append(word)
                continue
            name, joined, text = word.partition("=")
            one, value = options[name]
            if one.is_flag:
                _take(values, one, value, unclear=bool(joined))
            else:
                text = text if joined else next(rest)
                _take(values, one, _value(one, text), unclear=not joined and text[:1] == "-")
        for one in known:
            if isinstance(one.declared, Arg):
                _take_argument(values, one, given)
            elif one.name not in values and one.default is Parameter.empty:
                return None
    except (LookupError, ValueError, StopIteration):
        return None
    return None if given else bound(command, values)


def _take(values: dict[str, Any], one: Declaration, value: Any, *, unclear: bool) -> None:
    if unclear or (one.name in values and one.kind not in _LISTS):
        raise ValueError(one.name)
    values[one.name] = [*values.get(one.name, ()), value] if one.kind in _LISTS else value


def _take_argument(values: dict[str, Any], one: Declaration, given: list[str]) -> None:
    """Take the value of an argument from the words *given*; a list takes all that are left."""
    if given:
        count = len(given) if one.kind in _LISTS else 1
        words = [_value(one, given.pop(0)) for _ in range(count)]
        values[one.name] = words if one.kind in _LISTS else words[0]
    elif one.default is Parameter.empty:
        raise ValueError(one.name)


def _value(one: Declaration, word: str) -> Any:
    """Return the value of *word* for a parameter without restrictions.

    Raises:
        LookupError: If it has some.
        ValueError: If *word* is not of its type.
    """
    if one.declared.settings.keys() & _RESTRICTIONS:
        raise LookupError(one.name)
    return {**_WORDS, **_LISTS}[one.kind](word)
