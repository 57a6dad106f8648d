"""Types of Python as outputs of agents, and replies as values of these types.

A dataclass, a `msgspec.Struct`, a `TypedDict`, a named tuple or a pydantic model gives an output for each of its
fields; any other type is one output, `RESULT`. What the notation's own types cannot say is a JSON Schema.
"""

import dataclasses
import enum
import sys
from collections.abc import Mapping, Set
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from coterie.errors import UsageError
from coterie.topology.conditions import Scalar
from coterie.topology.model import Output

RESULT = "result"
"""The output of an agent whose type has no fields."""

_PLAIN: Mapping[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any", object: "any"}
_SCALARS = (str, int, float, bool)
"""Values of these types are JSON as they are."""


@dataclasses.dataclass(frozen=True, slots=True)
class TypedOutputs:
    """The outputs of a type.

    Attributes:
        schemas: The JSON Schema of each output whose type the notation has no word for.
    """

    outputs: tuple[Output, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def outputs_of(type_: Any, owner: str) -> TypedOutputs:
    """The outputs of an agent whose reply has the type *type_*; of a mapping, those that it names.

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
    required = _required(type_)
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
    if _is_pydantic(type_):
        return {field.alias or name: field.annotation for name, field in type_.model_fields.items()}
    if not isinstance(type_, type):
        return None
    if issubclass(type_, msgspec.Struct):
        hints = get_type_hints(type_, include_extras=True)
        return {one.encode_name: hints[one.name] for one in msgspec.structs.fields(type_)}
    is_named_tuple = issubclass(type_, tuple) and hasattr(type_, "_fields")
    if dataclasses.is_dataclass(type_) or is_typeddict(type_) or is_named_tuple:
        hints = get_type_hints(type_, include_extras=True)
        return {
            name: get_args(each)[0] if get_origin(each) in (Required, NotRequired) else each
            for name, each in hints.items()
        }
    return None


def schema_of(type_: Any, name: str, each: Any, owner: str) -> Mapping[str, Any]:
    """The JSON Schema of the output *name*, which has the type *each* in *type_*.

    Raises:
        UsageError: If there is none.
    """
    try:
        if _is_pydantic(type_):
            whole = type_.model_json_schema()
            found, shared = dict(whole["properties"][name]), whole.get("$defs", {})
            return {**found, "$defs": shared} if shared else found
        if _has_pydantic(each):
            from pydantic import TypeAdapter

            return dict(TypeAdapter(each).json_schema())
        found = dict(msgspec.json.schema(each))
        if "$ref" in found:  # without a level in between, and so without a `$ref` beside other keywords
            shared = dict(found["$defs"])
            own = shared.get(found["$ref"].rpartition("/")[2], {})
            found = {**own, **({"$defs": shared} if len(shared) > 1 or "$ref" in str(own) else {})}
        default = _default(type_, name)
        return {**found, "default": default} if default is not None else found
    except (TypeError, AttributeError) as error:
        why = str(error).splitlines()[-1]  # before it, what a program that calls msgspec could do
        raise UsageError(f"the output {name!r} of {owner} has a type that JSON cannot express: {why}") from None
    except Exception as error:  # of pydantic, whose errors are not importable without it
        raise UsageError(f"the output {name!r} of {owner} has a type without a JSON Schema: {error}") from None


def value_of(type_: Any, outputs: Mapping[str, Any], text: str = "") -> Any:
    """The *outputs* of a reply as a value of *type_*; of a text, the reply's *text* where it gives no outputs.

    Raises:
        ValueError: If they do not fit; the message says where.
    """
    bare = _present(type_)
    if bare in (None, NoneType):
        return None
    if RESULT in outputs and RESULT not in (fields_of(bare) or ()):
        return converted(outputs[RESULT], type_)
    if bare is str or (bare in (Any, object) and not outputs):
        return text if bare is str else text or None
    return converted(dict(outputs) if outputs or fields_of(bare) is not None else None, bare)


def converted(value: Any, type_: Any) -> Any:
    """*value*, data of JSON's types, as a value of *type_*.

    Raises:
        ValueError: If it does not fit.
    """
    if type_ in (Any, object) or type_ is None or (type(value) is type_ and type_ in _SCALARS):
        return value
    if _is_pydantic(type_):
        return type_.model_validate(value)
    if _has_pydantic(type_):
        from pydantic import TypeAdapter

        return TypeAdapter(type_).validate_python(value)
    if isinstance(value, Mapping) and isinstance(type_, type) and issubclass(type_, tuple):  # a named tuple's fields
        types = fields_of(type_) or {}
        return type_(**{name: converted(each, types.get(name, Any)) for name, each in value.items()})
    return msgspec.convert(value, type_, str_keys=True, dec_hook=_to_pydantic)


def as_outputs(value: Any, *, whole: bool = False) -> dict[str, Any]:
    """What a function returned, as the outputs of a reply; *whole* makes it one output, whatever fields it has.

    Raises:
        TypeError: If JSON cannot express it.
    """
    if value is None and not whole:
        return {}
    if type(value) in _SCALARS:
        return {RESULT: value}
    is_named_tuple = isinstance(value, tuple) and hasattr(value, "_asdict")
    built = msgspec.to_builtins(value._asdict() if is_named_tuple else value, str_keys=True, enc_hook=_of_pydantic)
    return dict(built) if isinstance(built, dict) and not whole else {RESULT: built}


def _present(type_: Any) -> Any:
    """*type_* without None, if only one type is left: `Review | None` is a `Review` where there is an answer."""
    if get_origin(type_) not in (Union, UnionType):
        return type_
    left = [one for one in get_args(type_) if one is not NoneType]
    return left[0] if len(left) == 1 else type_


def _to_pydantic(type_: Any, value: Any) -> Any:
    if _is_pydantic(type_):
        return type_.model_validate(value)
    raise TypeError(f"{type_!r} cannot be read from JSON")


def _of_pydantic(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _plain(type_: Any) -> tuple[str, tuple[Scalar, ...]] | None:
    """The notation's type for *type_*, and the members of an enum; None if it has none."""
    if type_ in _PLAIN:
        return _PLAIN[type_], ()
    members: tuple[Any, ...] = ()
    if get_origin(type_) is Literal:
        members = get_args(type_)
    elif isinstance(type_, type) and issubclass(type_, enum.Enum):
        members = tuple(one.value for one in type_)
    if members and all(isinstance(one, str | int | float) for one in members):
        return "enum", members
    return None


def _required(type_: Any) -> frozenset[str] | None:
    """The fields of *type_* without a default; None: all of them."""
    if _is_pydantic(type_):
        return frozenset(field.alias or name for name, field in type_.model_fields.items() if field.is_required())
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return frozenset(one.encode_name for one in msgspec.structs.fields(type_) if one.required)
    if dataclasses.is_dataclass(type_):
        missing = dataclasses.MISSING
        return frozenset(
            one.name for one in dataclasses.fields(type_) if one.default is missing and one.default_factory is missing
        )
    if is_typeddict(type_):
        return frozenset(type_.__required_keys__)
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


def _has_pydantic(type_: Any) -> bool:
    return _is_pydantic(type_) or any(map(_has_pydantic, get_args(type_)))
