"""Read a table as the fields of a class, by their types; each fault is reported at its place."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error
from coterie.team.formats.yaml.document import Leaf, Report, Table, Value, plain, shown, spans
from coterie.team.formats.yaml.document import Sequence as Items
from coterie.team.formats.yaml.fields import entry_span
from coterie.team.topology.checks.facts import UNREADABLE
from coterie.team.topology.system.fields import (
    IGNORING_CASE,
    WRAPPED,
    AgentFields,
    FunctionPath,
    Name,
    Path,
    ProcessName,
    RoutePath,
    StreamName,
    SupervisorFields,
    Text,
    TransportFields,
    TurnName,
    ZmqAddress,
)

_CODES = {
    "strategy": "bad-strategy",
    **dict.fromkeys(("backoff", "backoff_base", "backoff_max", "backoff_jitter"), "bad-backoff"),
    "name": "bad-name",
}
"""Codes of fields whose invalid values have one."""
_MISSING = {"name": "missing-name", "type": "missing-type", "": "missing-entry"}
"""Codes of missing fields."""

_ALSO_CALLED = {
    "url": "servers",
    "urls": "servers",
    "nats_url": "servers",
    "class": "type",
    "agents": "children",
    "workers": "children",
    "restarts": "max_restarts",
    "intensity": "max_restarts",
    "period": "restart_window",
    "window": "restart_window",
    "timeout": "handle_timeout",
}
"""Entries that other systems have, and what they are called here."""

Spans = dict[str, Span]
_NOWHERE = Span(1, 1)


class TypedReader:
    """Reads the fields of one owner.

    Args:
        owner: The owner for messages, `agent 'writer'`.
        where: The place of an owner without a name.

    Attributes:
        spans: The span of each entry, by its dotted path.
    """

    def __init__(self, owner: str, where: Span, report: Report) -> None:
        self._owner, self._where, self._report = owner, where, report
        self.spans: Spans = {}

    def read(
        self,
        table: Table,
        cls: type[msgspec.Struct],
        path: str = "",
        also: Iterable[str] = (),
        but: Mapping[str, str] = {},
    ) -> Any:
        """Read *table* as a *cls*: invalid fields are reported and get their defaults.

        Args:
            path: The dotted path of the table in its owner.
            also: Further entries that the caller reads.
            but: Fields that are not permitted here, and why.
        """
        fields = {name: field for name, field in _fields(cls).items() if name not in but}
        self._refuse_unknown(table, fields, path, (cls, also), but)
        found: dict[str, Any] = {}
        for name, field in fields.items():
            place, value, read = f"{path}.{name}" if path else name, table.entries.get(name), _WRONG
            if value is not None and not (plain(value) is None and _is_optional(field)):
                self.spans[place] = entry_span(table.keys[name], value)
                read = self._value(value, field.type, place)
            elif value is None and field.required:
                self._missing(name, path, table)
            if read is not _WRONG:
                found[field.name] = read
            elif field.required:
                found[field.name] = (UNREADABLE,) if isinstance(field.type, inspect.VarTupleType) else UNREADABLE
        return cls(**found)

    def _refuse_unknown(
        self,
        table: Table,
        fields: Mapping[str, inspect.Field],
        path: str,
        entries: tuple[type[msgspec.Struct], Iterable[str]],
        but: Mapping[str, str],
    ) -> None:
        cls, also = entries
        for key, span in table.keys.items():
            if key in fields or key in also:
                continue
            hint = but.get(key) or did_you_mean(key, (*fields, *also))
            inner = fields.get("config")
            if not hint and inner is not None and isinstance(inner.type, inspect.StructType):
                hint = "write it below config:" if key in _fields(inner.type.cls) else ""
            if not hint and _ALSO_CALLED.get(key) in (*fields, *also):
                value = table.entries[key]
                hint = f"write {_ALSO_CALLED[key]}: {value.value if isinstance(value, Leaf) else '…'}"
            hint = hint or _right_place(key, cls) or f"known entries: {', '.join((*fields, *also))}"
            self._report(error("unknown-entry", f"{self._title(path)} has no entry {key!r}", span, hint))

    def _missing(self, name: str, path: str, table: Table) -> None:
        code = _MISSING.get(name if not path else "", _MISSING[""])
        span = table.span if path else self._where
        hint = f"write {name}: {'MODULE.CLASS' if name == 'type' else '…'}"
        self._report(error(code, f"{self._title(path)} has no {name!r}", span, hint))

    def _value(self, value: Value, type: inspect.Type, place: str) -> Any:
        """Read *value* as a *type*; return `_WRONG`, with a report, if it is invalid."""
        match type:
            case inspect.UnionType(types=types):
                fitting = [each for each in types if _fits(value, each)]
                if len(fitting) == 1:
                    return self._value(value, fitting[0], place)
            case inspect.StructType(cls=cls):
                if isinstance(value, Table):
                    return self.read(value, cls, place)
            case inspect.VarTupleType(item_type=item):
                if isinstance(value, Items) and len(value.items) >= (type.min_length or 0):
                    read = [self._item(each, item, f"{place}.{at}") for at, each in enumerate(value.items)]
                    return tuple(each for each in read if each is not _WRONG)
            case inspect.DictType():
                if isinstance(value, Table):
                    self.spans |= {each: self.spans.get(each, span) for each, span in spans(value, place)}
                    return plain(value)
            case _:
                if isinstance(value, Leaf) and (leaf := _leaf(value.value, type, place)) is not _WRONG:
                    return leaf
        self._wrong(value, type, place)
        return _WRONG

    def _item(self, value: Value, type: inspect.Type, place: str) -> Any:
        self.spans[place] = value.span
        return self._value(value, type, place)

    def _wrong(self, value: Value, type: inspect.Type, place: str) -> None:
        of, _, name = place.rpartition(".")
        if name.isdigit():
            of, _, inner = of.rpartition(".")
            name = f"{inner}[{name}]"
        hint = ""
        if isinstance(value, Leaf) and isinstance(value.value, str):
            choices, text = _choices(type), value.value.upper() if name in IGNORING_CASE else value.value
            given = re.sub(r"[ -]", "_", value.value.lower())
            same = next((each for each in choices if each.lower() == given), "")
            why = "" if name in IGNORING_CASE else ": only strategy and backoff ignore case"
            hint = f"write {same}{why}" if same else did_you_mean(text, choices)
            if place == "name":
                hint = "write letters, digits, - and _, and begin with a letter"
        elif isinstance(value, Leaf) and isinstance(type, inspect.StrType) and value.value is not None:
            hint = "write it in quotes"
        hint = hint or _example(name, type)
        code = "bad-transport" if self._owner == "the transport" else _CODES.get(place, "bad-value")
        message = f"{name!r} of {self._title(of)} must be {_wanted(type, value)}, not {shown(value)}"
        self._report(error(code, message, value.span, hint))

    def _title(self, path: str) -> str:
        """The owner, or its part at *path*: `'config.routes[0]' of http_gateway 'api'`."""
        indexed = _INDEX.sub("[\\1]", path)
        return f"{indexed!r} of {self._owner}" if path else self._owner


def _right_place(key: str, cls: type[msgspec.Struct]) -> str:
    """The right place of the entry *key*, if it belongs to another part of the file than *cls*."""
    owners = {"the transport": TransportFields, "a supervisor": SupervisorFields, "an agent": AgentFields, **WRAPPED}
    owner = next((name for name, other in owners.items() if other is not cls and key in _fields(other)), "")
    if owner in WRAPPED:
        return f"{key} is an entry of a child of the kind {owner}: write - {owner}: {{name: …, {key}: …}}"
    return f"{key} is an entry of {owner}: move it there" if owner else ""


def _example(name: str, type: inspect.Type) -> str:
    """A line that sets *name* to a value of *type*; empty if no value is typical."""
    if "[" in name:
        return ""
    match type:
        case inspect.IntType(ge=low, le=high):
            return f"write {name}: {8080 if high == 65_535 else max(int(low or 0), 3)}"
        case inspect.FloatType():
            return f"write {name}: 1.5"
        case inspect.BoolType():
            return f"write {name}: true"
        case inspect.LiteralType(values=values):
            return f"write {name}: {values[0]}"
        case inspect.VarTupleType():
            return f"write {name}: [FIRST, SECOND]"
        case inspect.StructType() | inspect.DictType():
            return f"write {name}: {{NAME: VALUE}}"
    return ""


def value_faults(values: Mapping[str, Any], cls: type[msgspec.Struct], owner: str) -> list[str]:
    """The problems with *values* from Python as the fields of a *cls*, with the messages for a file."""
    found: list[Diagnostic] = []
    TypedReader(owner, _NOWHERE, found.append).read(_table(values), cls)
    hints = ("" if re.match(r"write [a-z_]+: ", one.hint) else one.hint for one in found)  # lines of YAML
    return [one.message + (f"; {hint}" if hint else "") for one, hint in zip(found, hints, strict=True)]


def _table(values: Mapping[str, Any]) -> Table:
    return Table({name: _value(value) for name, value in values.items()}, dict.fromkeys(values, _NOWHERE))


def _value(value: Any) -> Value:
    match value:
        case Mapping():
            return _table({str(key): each for key, each in value.items()})
        case list() | tuple():
            return Items(tuple(map(_value, value)), _NOWHERE)
        case _:
            return Leaf(value, _NOWHERE)


def _pattern(type: Any) -> str:
    info = inspect.type_info(type)
    assert isinstance(info, inspect.StrType)
    return info.pattern or ""


def is_field(cls: type[msgspec.Struct], name: str) -> bool:
    """Whether *cls* has the field *name*."""
    return name in _fields(cls)


_SHAPES = {
    _pattern(Name): "a name without spaces and signs",
    _pattern(ProcessName): "a name without spaces and signs",
    _pattern(ZmqAddress): "an address like tcp://127.0.0.1:5559",
    _pattern(TurnName): "a name of letters, digits, - and _",
    _pattern(StreamName): "a name without spaces, dots, slashes, '*' and '>'",
    _pattern(Path): "a path that begins with /",
    _pattern(RoutePath): "a path like /users/{id}: each parameter once, and no ?, # or %",
    _pattern(FunctionPath): "the dotted path of a function",
}
"""What a text must be, by its pattern."""

_WRONG: Any = object()
_INDEX = re.compile(r"\.(\d+)")


@cache
def _fields(cls: type) -> dict[str, inspect.Field]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields}


def _is_optional(field: inspect.Field) -> bool:
    """Whether *field* may be empty, such as `routes:` without a list."""
    return not field.required and isinstance(field.type, inspect.StructType | inspect.DictType | inspect.VarTupleType)


def _fits(value: Value, type: inspect.Type) -> bool:
    """Whether *value* has the shape of *type*."""
    match value:
        case Table():
            return isinstance(type, inspect.StructType | inspect.DictType)
        case Items():
            return isinstance(type, inspect.VarTupleType)
        case Leaf(value=None):
            return isinstance(type, inspect.NoneType)
        case Leaf():
            return not isinstance(type, inspect.StructType | inspect.DictType | inspect.VarTupleType | inspect.NoneType)


def _leaf(value: Any, type: inspect.Type, place: str) -> Any:
    if isinstance(value, str) and place in IGNORING_CASE:
        value = value.upper()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type:
        case inspect.StrType(pattern=pattern) if isinstance(value, str):
            matches = re.fullmatch if (pattern or "").startswith("^") else re.search
            return value if pattern is None or matches(pattern, value) else _WRONG
        case inspect.BoolType() if isinstance(value, bool):
            return value
        case inspect.NoneType() if value is None:
            return None
        case inspect.LiteralType(values=values) if isinstance(value, str) and value in values:
            return value
        case inspect.IntType() if is_number and isinstance(value, int) and _in_range(value, type):
            return value
        case inspect.FloatType() if is_number and _in_range(value, type):
            return float(value)
    return _WRONG


def _in_range(value: float, type: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (type.ge is None or value >= type.ge)
        and (type.gt is None or value > type.gt)
        and (type.le is None or value <= type.le)
    )


def _choices(type: inspect.Type) -> list[str]:
    types = type.types if isinstance(type, inspect.UnionType) else (type,)
    return [str(each) for one in types if isinstance(one, inspect.LiteralType) for each in one.values]


def _wanted(type: inspect.Type, value: Value) -> str:
    match type:
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(_wanted(each, value) for each in types))
        case inspect.StrType(pattern=pattern):
            is_blank = pattern == _pattern(Text) and isinstance(value, Leaf) and isinstance(value.value, str)
            return "a text that is not empty" if is_blank else _SHAPES.get(pattern or "", "a text")
        case inspect.IntType():
            return f"a whole number {_range(type, value)}".strip()
        case inspect.FloatType():
            return f"a number {_range(type, value)}".strip()
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}" if len(values) > 1 else str(values[0])
        case inspect.VarTupleType(item_type=item):
            what = "tables" if isinstance(item, inspect.StructType) else "texts"
            return f"a list of {what}"
        case inspect.NoneType():
            return "null"
        case _:
            return "a table"


def _range(type: inspect.IntType | inspect.FloatType, value: Value) -> str:
    low = f"above {type.gt:g}" if type.gt is not None else f"from {type.ge:g}" if type.ge is not None else ""
    given = value.value if isinstance(value, Leaf) else None
    is_too_large = isinstance(given, int | float) and type.le is not None and given > type.le
    high = f"to {type.le:.10g}" if type.le is not None and (type.le < 1e9 or is_too_large) else ""
    return f"{low} {high}".strip() if not low.startswith("above") or not high else f"{low}, up to {type.le:.10g}"
