"""Teams made of several files: parameters, interfaces, imports and included files.

Values only; `coterie.team.formats` reads and combines the files.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Located, Span
from coterie.team.topology.conditions import Scalar, as_text, is_number

MAX_DEPTH = 8
"""Maximum nesting depth of topologies and fragments."""

PARAM_TYPES = ("string", "number", "boolean")

PLACEHOLDER = re.compile(r"\$\{param\.([A-Za-z][A-Za-z0-9_-]*)\}")
"""Placeholder for a parameter in a text. Environment variable names contain no dot, so the two cannot be confused."""

_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


class Param(Located, frozen=True, kw_only=True):
    """A parameter of a topology.

    Attributes:
        type: `string`, `number` or `boolean`.
        default: Used when no value is given; None makes the parameter required.
        value: The effective value; a topology with a parameter that is None can be read but not run.
    """

    name: str
    type: str = "string"
    default: Scalar | None = None
    value: Scalar | None = None
    span: Span | None = None


class Interface(Located, frozen=True, kw_only=True):
    """What a topology exposes to its importers.

    Attributes:
        entry: The node where the flow starts; empty if not given.
        exit: The node whose latest result is the topology's; empty: the results of all final nodes together.
    """

    entry: str = ""
    exit: str = ""
    span: Span | None = None
    spans: Mapping[str, Span] = {}


class Included(Located, frozen=True, kw_only=True):
    """A file included in another one.

    Offsets of its spans begin at *start*, after those of all earlier files, so each offset is unique.

    Attributes:
        file: Its path, relative to the same folder as the including file's.
        name: The fragment's name.
    """

    unshown = frozenset({"text"})

    file: str
    start: int
    name: str = ""
    text: str = ""


def file_of(span: Span | None, included: Sequence[Included], file: str) -> str:
    """The file that contains *span*: one of *included*, else *file*."""
    part = _part(span, included)
    return part.file if part is not None else file


def located(found: Diagnostic, included: Sequence[Included], file: str) -> Diagnostic:
    """*found* with its file set; for an included file also with that file's text and offsets, and no fix.

    A diagnostic that already names its file is returned unchanged.
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
    """Substitute parameter values in *text*; placeholders without a value are kept."""
    if not values or "${param." not in text:
        return text
    return PLACEHOLDER.sub(lambda match: shown(values[match[1]]) if match[1] in values else match[0], text)


def values_of(params: Sequence[Param]) -> dict[str, Scalar]:
    """Effective values by name."""
    return {param.name: param.value for param in params if param.value is not None}


def missing(params: Sequence[Param]) -> Iterator[str]:
    """Names of the parameters that have no value yet."""
    return (param.name for param in params if param.value is None)


def shown(value: Scalar) -> str:
    """*value* as text."""
    return value if isinstance(value, str) else as_text(value)


def converted(value: object, type: str) -> Scalar | None:
    """Convert *value* to *type*; None if that is impossible.

    Values from a command line are texts, so a text is parsed as a number or boolean.
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
