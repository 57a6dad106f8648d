"""Whether what one type of Python gives can ever be read as another, by the JSON that both are written as.

Only what is certain counts: types that JSON does not tell apart, and types that are not known here, fit.
"""

import datetime
import enum
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

from coterie.team.topology.typed.values import fields_of, is_written_as_text, required_fields

_KINDS: Mapping[Any, frozenset[str]] = {
    NoneType: frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer"}),
    float: frozenset({"number"}),
    **dict.fromkeys(
        (str, bytes, bytearray, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID),
        frozenset({"text"}),
    ),
}

_ARRAYS = (Collection, Iterable, Sequence)
_JSON = frozenset({Any, object, NoneType, bool, int, float, str, list, dict, *_ARRAYS, Mapping, UnionType})

_EQUAL = (enum.StrEnum, enum.IntEnum)
"""Classes whose values equal their JSON."""

_NAMED_TUPLE = frozenset({"array", "object"})
"""A whole answer is written as an object, one in another value as an array; both are read."""


def misfit(given: Any, wanted: Any, place: str = "", seen: frozenset[tuple[int, int]] = frozenset()) -> str:
    """Why no value of *given* can be read as *wanted*, with the place in it; empty if some may."""
    given, wanted = _bare(given), _bare(wanted)
    if given == wanted or (id(given), id(wanted)) in seen:
        return ""
    seen |= {(id(given), id(wanted))}
    gives, takes = _kinds(given), _kinds(wanted)
    if gives == _NAMED_TUPLE:
        gives = frozenset({"array" if place else "object"})
    if gives is None or takes is None:
        return ""
    shared = gives & (takes | {"integer"} if "number" in takes else takes)
    at = f"{place} of it is " if place else "it is "
    if not shared:
        return f"{at}{named(given)}, never {named(wanted)}"
    if shared == {"array"} and (one := _item(given)) is not None and (other := _item(wanted)) is not None:
        return misfit(one, other, f"{place}[…]", seen)
    if shared == {"object"} and (fields := fields_of(given)) is not None and (reads := fields_of(wanted)) is not None:
        required = required_fields(wanted)
        for name, type_ in reads.items():
            if name in fields:
                if why := misfit(fields[name], type_, f"{place}.{name}", seen):
                    return why
            elif required is None or name in required:
                return f"{at}{named(given)}, which has no {name!r} for {named(wanted)}"
    return ""


def beyond_json(type_: Any, seen: frozenset[int] = frozenset()) -> Any:
    """The first type in *type_* whose values are others as JSON; None if there is none."""
    type_ = _bare(type_)
    known, args = get_origin(type_) or type_, get_args(type_)
    has_other_keys = known in (dict, Mapping) and bool(args) and _kinds(args[0]) != frozenset({"text"})
    if known is Literal:
        args = tuple(map(type, args))
    elif is_typeddict(known):
        args = tuple((fields_of(known) or {}).values())
    elif has_other_keys or (isinstance(known, type) and known not in _JSON and not issubclass(known, _EQUAL)):
        return type_
    found = (beyond_json(one, seen | {id(type_)}) for one in args if id(type_) not in seen)
    return next((one for one in found if one is not None), None)


def named(type_: Any) -> str:
    """*type_* as a user writes it."""
    return getattr(type_, "__name__", str(type_)) if get_origin(type_) is None else str(type_).replace("typing.", "")


def _bare(type_: Any) -> Any:
    while True:
        if get_origin(type_) is Annotated:
            type_ = get_args(type_)[0]
        elif type_ is None:
            return NoneType
        elif (inner := getattr(type_, "__supertype__", None) or getattr(type_, "__value__", None)) is not None and not (
            isinstance(type_, type | enum.Enum)
        ):
            type_ = inner  # of a `NewType`, or of `type X = …`
        else:
            return type_


def _kinds(type_: Any) -> frozenset[str] | None:
    """The kinds of JSON that *type_* may be written as; None: unknown."""
    type_, origin = _bare(type_), get_origin(_bare(type_))
    if origin in (Union, UnionType):
        each = [_kinds(one) for one in get_args(type_)]
        return None if None in each else frozenset().union(*filter(None, each))
    if origin is Literal:
        return frozenset().union(*(_KINDS.get(type(_value(one)), frozenset({"text"})) for one in get_args(type_)))
    known = origin or type_
    if not isinstance(known, type):
        return None
    if known in _KINDS:
        return _KINDS[known]
    if issubclass(known, enum.Enum):
        return frozenset().union(*(_KINDS.get(type(_value(one)), frozenset({"text"})) for one in known))
    if issubclass(known, tuple) and hasattr(known, "_fields"):
        return _NAMED_TUPLE
    if is_typeddict(known) or issubclass(known, Mapping):
        return frozenset({"object"})
    if is_written_as_text(known):
        return frozenset({"text"})
    if issubclass(known, list | tuple | AbstractSet | deque) or known in _ARRAYS:
        return frozenset({"array"})
    config = getattr(known, "__struct_config__", None)
    if config is not None and config.array_like:
        return frozenset({"array"})
    return frozenset({"object"}) if fields_of(known) is not None else None


def _value(member: Any) -> Any:
    return member.value if isinstance(member, enum.Enum) else member


def _item(type_: Any) -> Any:
    """The type of each item of an array; None if it has several or it is unknown."""
    args = [one for one in get_args(type_) if one is not Ellipsis]
    return args[0] if len(args) == 1 else None
