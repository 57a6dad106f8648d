"""Types of Python as outputs of agents, and replies as values of these types.

A dataclass, a `msgspec.Struct`, a `TypedDict`, a named tuple or a pydantic model has an output for each of its fields;
any other type is one output, `RESULT`. Types that the notation lacks are described by a JSON Schema.
"""

import collections
import dataclasses
import enum
import json
import math
import sys
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, is_typeddict

import msgspec

from coterie.errors import UsageError
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Output
from coterie.team.topology.typed.functions import hints_of

RESULT = "result"
"""The output of an agent whose type has no fields."""

_PLAIN: Mapping[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any", object: "any"}
_SCALARS = (str, int, float, bool)
"""Types whose values are JSON without conversion."""


class TypedOutputs(msgspec.Struct, frozen=True):
    """The outputs of a type.

    Attributes:
        schemas: The JSON Schema of each output whose type the notation lacks.
    """

    outputs: tuple[Output, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = {}


def outputs_of(type_: Any, owner: str) -> TypedOutputs:
    """The outputs of an agent whose reply has the type *type_*; for a mapping, the named outputs.

    Args:
        owner: The agent in words, for messages.

    Raises:
        UsageError: If JSON cannot express the type.
    """
    if type_ in (None, NoneType):
        return TypedOutputs()
    named = type_ if isinstance(type_, Mapping) else fields_of(type_)
    if named is None:
        named = {RESULT: type_}
    outputs, schemas = [], {}
    required = required_fields(type_)
    for name, each in named.items():
        if not isinstance(name, str) or isinstance(each, str | int | float | list | tuple | dict | Set):
            raise UsageError(
                f"the output {name!r} of {owner} is given as {each!r}, which is no type: "
                'outputs={"verdict": Literal["yes", "no"], "score": int}, or a dataclass'
            )
        plain = _plain(each) if required is None or name in required else None
        if plain is not None:
            outputs.append(Output(name=name, type=plain[0], values=plain[1]))
            continue
        outputs.append(Output(name=name, type="any"))
        schemas[name] = schema_of(type_, name, each, owner)
        if required is not None and name not in required:
            schemas[name] = {"default": None, **schemas[name]}
    return TypedOutputs(tuple(outputs), schemas)


def fields_of(type_: Any) -> dict[str, Any] | None:
    """The fields of *type_* with their types; None if it has none."""
    if _is_model(type_):
        return {field.alias or name: field.annotation for name, field in type_.model_fields.items()}
    return _fields_of_class(type_) if isinstance(type_, type) else None


@lru_cache(maxsize=1024)
def _fields_of_class(type_: Any) -> dict[str, Any] | None:
    """The same for a class, whose annotations are slow to resolve."""
    if issubclass(type_, msgspec.Struct):
        if type_.__struct_config__.array_like:
            return None
        hints = hints_of(type_)
        return {one.encode_name: hints[one.name] for one in msgspec.structs.fields(type_)}
    is_named_tuple = issubclass(type_, tuple) and hasattr(type_, "_fields")
    if dataclasses.is_dataclass(type_) or is_typeddict(type_) or is_named_tuple:
        hints = hints_of(type_)
        if dataclasses.is_dataclass(type_):  # whose hints include class variables
            return {one.name: hints[one.name] for one in dataclasses.fields(type_)}
        return {
            name: get_args(each)[0] if get_origin(each) in (Required, NotRequired) else each
            for name, each in hints.items()
        }
    return None


def attributes(value: Any) -> dict[str, Any]:
    """The values of the fields of *value*, which has some, by the names of `fields_of`."""
    kind = type(value)
    if _is_model(kind):
        return {field.alias or name: getattr(value, name) for name, field in kind.model_fields.items()}
    if isinstance(value, msgspec.Struct):
        return {one.encode_name: getattr(value, one.name) for one in msgspec.structs.fields(kind)}
    return {name: getattr(value, name) for name in fields_of(kind) or ()}


def schema_of(type_: Any, name: str, each: Any, owner: str) -> Mapping[str, Any]:
    """The JSON Schema of the output *name*, which has the type *each* in *type_*.

    Raises:
        UsageError: If there is none.
    """
    try:
        if _is_model(type_):
            whole = type_.model_json_schema()
            shared = whole.get("$defs", {})
            own = shared[whole["$ref"].rpartition("/")[2]] if "$ref" in whole else whole  # it contains itself
            found = dict(own["properties"][name])
            return {**found, "$defs": shared} if shared else found
        if _has_pydantic(each):
            from pydantic import TypeAdapter

            return dict(TypeAdapter(each).json_schema())
        found = dict(msgspec.json.schema(each, schema_hook=_foreign_schema))
        if "$ref" in found:  # without a level in between, and so without a `$ref` beside other keywords
            shared = dict(found["$defs"])
            own = shared.get(found["$ref"].rpartition("/")[2], {})
            found = {**own, **({"$defs": shared} if len(shared) > 1 or "$ref" in str(own) else {})}
        default = _default(type_, name)
        return {**found, "default": default} if default is not None else found
    except (TypeError, AttributeError) as error:
        why = str(error).splitlines()[-1]  # without the preceding advice for programs that call msgspec
        raise UsageError(f"the output {name!r} of {owner} has a type that JSON cannot express: {why}") from None
    except Exception as error:  # from pydantic, whose errors cannot be imported without it
        raise UsageError(f"the output {name!r} of {owner} has a type without a JSON Schema: {error}") from None


def value_of(type_: Any, outputs: Mapping[str, Any], text: str = "", *, is_none: bool = False) -> Any:
    """Convert the *outputs* of a reply to *type_*; for a text, use the reply's *text* if there are no outputs.

    *is_none*: a function gave it that declares no outputs, so that it is None if *type_* may be.

    Raises:
        ValueError: If they are invalid, with the place.
    """
    bare = _present(type_)
    if bare in (None, NoneType) or (is_none and bare is not type_):
        return None
    if RESULT in outputs and RESULT not in (fields_of(bare) or ()):
        return converted(outputs[RESULT], type_)
    if bare is str or (bare in (Any, object) and not outputs):
        return text if bare is str else text or None
    return converted(dict(outputs) if outputs or fields_of(bare) is not None else None, bare)


def converted(value: Any, type_: Any) -> Any:
    """Convert *value*, JSON data, to *type_*.

    Raises:
        ValueError: If it is invalid.
    """
    if type_ in (Any, object) or type_ is None or (type(value) is type_ and type_ in _SCALARS):
        return value
    if _is_pydantic(type_):
        return type_.model_validate_json(msgspec.json.encode(value))
    if _has_pydantic(type_):
        from pydantic import TypeAdapter

        return TypeAdapter(type_).validate_json(msgspec.json.encode(value))
    if isinstance(value, Mapping) and isinstance(one := _present(type_), type) and issubclass(one, tuple):
        types = fields_of(one) or {}
        return one(**{name: converted(each, types.get(name, Any)) for name, each in value.items()})
    return msgspec.convert(value, type_, str_keys=True, dec_hook=_to_foreign)


class _UntypedTuple(list[Any]):
    """The JSON of a tuple. Only where no type is declared, its readers would get this list itself."""


def as_outputs(value: Any, *, whole: bool = False) -> dict[str, Any]:
    """Convert the return value of a function to outputs, as JSON; with *whole* it is one output even if it has fields.

    Raises:
        TypeError, ValueError: If JSON cannot express it.
    """
    if type(value) in _SCALARS and type(value) is not float:
        return {RESULT: value}
    built = _built(value, whole=whole)
    try:
        found: dict[str, Any] = json.loads(json.dumps(built, allow_nan=False))
    except ValueError as error:
        raise ValueError(difference(value, value) or str(error)) from None
    return found


def lost(value: Any, type_: Any, *, whole: bool = False) -> str:
    """Where those who read the outputs of *value* as *type_* would get another one; empty if they get the same.

    Raises:
        TypeError, ValueError: If they cannot read it.
    """
    outputs = _marked(_built(value, whole=whole))
    return difference(value, converted(outputs[RESULT], type_) if whole else value_of(type_, outputs))


def _built(value: Any, *, whole: bool) -> dict[str, Any]:
    """The outputs of *value*, with tuples."""
    if value is None and not whole:
        return {}
    is_named_tuple = isinstance(value, tuple) and hasattr(value, "_asdict")
    built = msgspec.to_builtins(value._asdict() if is_named_tuple else value, str_keys=True, enc_hook=_of_foreign)
    is_empty = built == {} and isinstance(value, Mapping)  # which is not None, and has no field to say so
    return dict(built) if isinstance(built, dict) and not (whole or is_empty) else {RESULT: built}


def _marked(value: Any) -> Any:
    """*value* as JSON, in which tuples are marked."""
    if isinstance(value, dict):
        return {key: _marked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return (_UntypedTuple if isinstance(value, tuple) else list)(map(_marked, value))
    return value


def difference(value: Any, read: Any, place: str = "") -> str:
    """Where *read*, *value* as a reader of its JSON gets it, is another one; empty if it is the same."""
    given, at = type(value).__name__, f" at {place}" if place else ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}{at}, which JSON cannot hold: give None or a text in its place"
    if type(value) in _SCALARS and type(value) is type(read) and value == read:
        return ""
    if given in ("SecretStr", "SecretBytes"):
        return f"a secret{at}, which no journal keeps: read it from the environment where it is used"
    is_same, has_fields = type(value) is type(read), fields_of(type(value)) is not None
    found: Iterable[tuple[str, Any, Any]] = ()
    is_untyped = isinstance(read, _UntypedTuple)
    is_other = is_untyped or (not is_same and (has_fields or fields_of(type(read)) is not None))
    if isinstance(value, Mapping) and isinstance(read, Mapping):
        for key in value.keys() - read.keys():
            return f"the key {key!r}{at}, which its readers would get as a text: declare the type of the keys"
        found = ((f"{place}[{key!r}]", one, read[key]) for key, one in value.items())
    elif isinstance(value, list | tuple) and isinstance(read, list | tuple) and not is_other:
        found = ((f"{place}[{n}]", *pair) for n, pair in enumerate(zip(value, read, strict=False)))
    elif isinstance(value, Set) and isinstance(read, Set):
        kinds, first = set(map(type, read)), next(iter(read), None)
        found = ((f"{place}{{…}}", one, first) for one in value if type(one) not in kinds)
    elif is_other or (not is_same and value != read):
        reads = "list" if is_untyped else type(read).__name__
        return f"{given}{at}, which its readers would get as {reads}: declare the type {given}"
    elif not has_fields and value != read:
        return f"{value!r:.80}{at}, which its readers would get as {read!r:.80}: its type does not write it into JSON"
    elif has_fields:
        holders = ("model_fields", "__struct_fields__", "__dataclass_fields__")
        names: Iterable[str] = next((getattr(type(value), kind) for kind in holders if hasattr(type(value), kind)), ())
        found = ((f"{place}.{name}", getattr(value, name, None), getattr(read, name, None)) for name in names)
    return next(filter(None, (difference(one, other, at) for at, one, other in found)), "")


def _present(type_: Any) -> Any:
    """*type_* without None, if only one type remains: `Review | None` becomes `Review`."""
    if get_origin(type_) not in (Union, UnionType):
        return type_
    left = [one for one in get_args(type_) if one is not NoneType]
    return left[0] if len(left) == 1 else type_


def is_text(type_: Any) -> bool:
    """Whether any answer can be read as *type_*, as a text or as it is."""
    return _present(type_) in (str, Any, object)


def is_written_as_text(type_: Any) -> bool:
    """Whether a value of *type_* is its text, as in `Path("a/b")`: paths, addresses, fractions, complex numbers."""
    return isinstance(type_, type) and (
        issubclass(type_, PurePath | complex) or type_.__module__ in ("fractions", "ipaddress")
    )


def _contents(type_: Any) -> Any:
    """The list or the dictionary that a collection of *type_* is made of; None if it is none of `collections`.

    What may be any iterable is a list.
    """
    made, args = get_origin(type_) or type_, get_args(type_)
    if made in (collections.deque, Iterable):
        return list[args] if args else list  # type: ignore[valid-type]
    if not isinstance(made, type) or not issubclass(made, dict) or made.__module__ != "collections":
        return None
    args += (int,) if made is collections.Counter and args else ()
    return dict[args] if args else dict  # type: ignore[misc, valid-type]


def _foreign_schema(type_: Any) -> dict[str, Any]:
    if type_ is object:
        return {"title": "any value"}  # an empty schema counts as none
    if is_written_as_text(type_):
        return {"type": "string"}
    if (contents := _contents(type_)) is not None:
        return dict(msgspec.json.schema(contents, schema_hook=_foreign_schema))
    raise TypeError(f"type {type_!r} is not supported")


def _to_foreign(type_: Any, value: Any) -> Any:
    if type_ is object:
        return value
    if _is_pydantic(type_):
        return converted(value, type_)
    if is_written_as_text(type_) and isinstance(value, str):
        return type_(value)
    if (contents := _contents(type_)) is not None:
        read, made = converted(value, contents), get_origin(type_) or type_
        if made is Iterable:
            return read
        return made(None, read) if made is collections.defaultdict else made(read)
    raise TypeError(f"{type_!r} cannot be read from JSON")


def _of_foreign(value: Any) -> Any:
    if lost := difference(value, value):  # a secret, which pydantic would write as asterisks
        raise TypeError(lost)
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if is_written_as_text(type(value)):
        return str(value)
    if isinstance(value, collections.deque):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _plain(type_: Any) -> tuple[str, tuple[Scalar, ...]] | None:
    """The notation's type for *type_*, and the members of an enum; None if it has none."""
    if type_ in _PLAIN:
        return _PLAIN[type_], ()
    if isinstance(type_, type) and issubclass(type_, enum.Flag):
        return "integer", ()  # its values are sums of its members
    members: tuple[Any, ...] = ()
    if get_origin(type_) is Literal:
        members = get_args(type_)
    elif isinstance(type_, type) and issubclass(type_, enum.Enum):
        members = tuple(one.value for one in type_)
        if not (all(isinstance(one, str) for one in members) or all(isinstance(one, int) for one in members)):
            return None  # nothing reads a member back
    if members and all(isinstance(one, str | int | float) for one in members):
        return "enum", members
    return None


def required_fields(type_: Any) -> frozenset[str] | None:
    """The fields of *type_* without a default; None: all of them."""
    if _is_model(type_):
        return frozenset(field.alias or name for name, field in type_.model_fields.items() if field.is_required())
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return frozenset(one.encode_name for one in msgspec.structs.fields(type_) if one.required)
    if dataclasses.is_dataclass(type_):
        missing = dataclasses.MISSING
        return frozenset(
            one.name for one in dataclasses.fields(type_) if one.default is missing and one.default_factory is missing
        )
    if is_typeddict(type_):  # whose `__required_keys__` are wrong where annotations are texts
        marks = {name: get_origin(each) for name, each in hints_of(type_).items()}
        known = type_.__required_keys__
        return frozenset(one for one in marks if marks[one] is Required or (one in known and marks[one] != NotRequired))
    if isinstance(type_, type) and hasattr(type_, "_field_defaults"):
        return frozenset(getattr(type_, "_fields", ())) - frozenset(type_._field_defaults)
    return None


def _default(type_: Any, name: str) -> Any:
    """The default of a field, if it is plain data."""
    fields: Any = dataclasses.fields(type_) if dataclasses.is_dataclass(type_) else ()
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        fields = msgspec.structs.fields(type_)
    default = next((one.default for one in fields if getattr(one, "encode_name", one.name) == name), None)
    return default if isinstance(default, str | int | float | bool) else None


def _is_pydantic(type_: Any) -> bool:
    """Whether *type_* is a pydantic model; it is not imported for that."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel)


def _is_model(type_: Any) -> bool:
    """Whether *type_* is a pydantic model with fields: a root model is one value, of any type."""
    return _is_pydantic(type_) and not type_.__pydantic_root_model__


def _has_pydantic(type_: Any) -> bool:
    return _is_pydantic(type_) or any(map(_has_pydantic, get_args(type_)))
