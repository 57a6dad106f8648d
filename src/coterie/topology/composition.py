"""What makes one team of several files: parameters, an interface, imports, and the files that were included.

Values only; files are read and put together in `coterie.formats`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coterie.diagnostics import Diagnostic, Span
from coterie.topology.conditions import Scalar, as_text, is_number

if TYPE_CHECKING:
    from coterie.topology.model import Topology

MAX_DEPTH = 8
"""How deep topologies and fragments may lie in each other."""

PARAM_TYPES = ("string", "number", "boolean")

PLACEHOLDER = re.compile(r"\$\{param\.([A-Za-z][A-Za-z0-9_-]*)\}")
"""Where the value of a parameter stands in a text. No environment variable has a dot in its name."""

_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A value that whoever uses a topology may, or must, give it.

    Attributes:
        type: `string`, `number` or `boolean`.
        default: Counts when nothing is given; None: something must be.
        value: What counts; None as long as nothing does, and then the topology can be read and not run.
    """

    name: str
    type: str = "string"
    default: Scalar | None = None
    value: Scalar | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What a topology shows to those that import it.

    Attributes:
        entry: The node where the flow starts; empty: not said.
        exit: The node whose latest result is that of the whole; empty: those of all last nodes together.
    """

    entry: str = ""
    exit: str = ""
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A topology that answers at a node, as `import` names it.

    Attributes:
        source: The file, from the folder of the importing topology; or a name of the registry, `team@1.2.0`.
        given: The values of its parameters, as `with` gives them.
        sha256: What the file must have as its SHA-256, in hex; empty: any.
        topology: What was read there, with the values given; None when it could not be read, or is in the registry.
    """

    source: str
    given: Mapping[str, Scalar] = field(default_factory=dict)
    sha256: str = ""
    topology: "Topology | None" = field(default=None, repr=False)

    @property
    def is_file(self) -> bool:
        """Whether it names a file, not something in the registry."""
        return self.source.endswith((".at", ".yaml", ".yml"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """A file whose declarations are a part of another's.

    Its spans have offsets from *start* on, behind those of all files before it, so that one number names one place.

    Attributes:
        file: Its path, as the including file's is named.
        name: That of the fragment.
    """

    file: str
    start: int
    name: str = ""
    text: str = field(default="", repr=False)


def file_of(span: Span | None, included: Sequence[Included], file: str) -> str:
    """The file that *span* stands in: one of those *included*, else *file*."""
    part = _part(span, included)
    return part.file if part is not None else file


def located(found: Diagnostic, included: Sequence[Included], file: str) -> Diagnostic:
    """*found* with the file it stands in; in an included one with that one's text and offsets, and without a fix.

    What knows its file already is left as it is.
    """
    if found.file:
        return found
    part = _part(found.span, included)
    if part is None or found.span is None:
        return replace(found, file=file)
    place = found.span
    span = Span(place.line, place.column, place.length, place.offset - part.start)
    return replace(found, file=part.file, text=part.text, span=span, fix=None)


def _part(span: Span | None, included: Sequence[Included]) -> Included | None:
    if span is None or not included or span.offset < included[0].start:
        return None
    return included[bisect_right(included, span.offset, key=lambda part: part.start) - 1]


def fill(text: str, values: Mapping[str, Scalar]) -> str:
    """*text* with the values of parameters in their places; a place without a value is left as it is."""
    if not values or "${param." not in text:
        return text
    return PLACEHOLDER.sub(lambda match: shown(values[match[1]]) if match[1] in values else match[0], text)


def values_of(params: Sequence[Param]) -> dict[str, Scalar]:
    """The values that count, by name."""
    return {param.name: param.value for param in params if param.value is not None}


def missing(params: Sequence[Param]) -> Iterator[str]:
    """The names of the parameters that still want a value."""
    return (param.name for param in params if param.value is None)


def shown(value: Scalar) -> str:
    """*value* as it stands in a text."""
    return value if isinstance(value, str) else as_text(value)


def converted(value: object, type: str) -> Scalar | None:
    """*value* as a value of *type*, or None when it is none.

    A command line knows texts only, so a text counts as the number, or the truth value, that it reads as.
    """
    if isinstance(value, str):
        match type:
            case "number" if _NUMBER.fullmatch(value):
                return float(value) if "." in value else int(value)
            case "boolean" if value in ("true", "false"):
                return value == "true"
            case "string":
                return value
        return None
    if isinstance(value, bool):
        return value if type == "boolean" else as_text(value) if type == "string" else None
    if is_number(value):
        assert isinstance(value, int | float)
        return converted(as_text(value), type)
    return None
