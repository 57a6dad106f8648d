"""Descriptions of the built-in patterns; the module of each is loaded when a file or a plan uses it.

Messages contain those of the reference, such as `Debate requires 'mediator' slot`, because programs search for them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from coterie.base.diagnostics import Severity, did_you_mean
from coterie.team.topology.patterns.configs import Config
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.names import TYPES, TopologyType

_MODULES = "coterie.patterns.builtin"
"""The package of the patterns. It imports the engines, which import this package: so a pattern is loaded by name."""

COMMON = ("text", "failures", "warnings", "usage")
"""The keys of every result."""


class PatternSpec(Struct, frozen=True):
    """One pattern type.

    Attributes:
        name: Its stored name, also the name of its module.
        title: Its name for people.
        config: The class of its configuration.
        about: What it does, in one line.
        keys: Input keys that may contain its task, the usual one first; empty: any input is accepted.
        results: The classes of its results.
        roles: The role of its agents in rows, by the first word of their slots; others are executors.
        named_slot: A setting that may name the agent of a slot, and that slot.
        retries: The retries of an agent that sets none.
        stops_early: The setting that lets it end early.
        is_per_task: Whether its turns are counted for one task.
        has_skills: Whether capabilities of its agents may be skills, which are not mixins.
        required: The slots that it always needs.
        python_hints: Hints for a team built in Python, by the hint for a file.
    """

    name: str
    title: str
    config: type[Config]
    about: str = ""
    keys: tuple[str, ...] = ()
    results: tuple[type[msgspec.Struct], ...] = ()
    roles: Mapping[str, str] = {}
    named_slot: tuple[str, str] = ("", "")
    retries: int = 3
    stops_early: str = ""
    is_per_task: bool = False
    has_skills: bool = False
    required: tuple[str, ...] = ()
    python_hints: Mapping[str, str] = {}

    @property
    def words(self) -> tuple[str, ...]:
        """Its name and other accepted ones."""
        return tuple(word for word, name in TYPES.items() if name == self.name)


class _BuiltIn(Mapping[str, PatternSpec]):
    """The built-in patterns by stored name, in the order of the documentation; a pattern is loaded on lookup."""

    def __getitem__(self, name: str) -> PatternSpec:
        if name not in self:
            raise KeyError(name)
        found: PatternSpec = import_module(f"{_MODULES}.{name}").SPEC
        return found

    def __iter__(self) -> Iterator[str]:
        return (one.value for one in TopologyType)

    def __len__(self) -> int:
        return len(TopologyType)

    def __contains__(self, name: object) -> bool:
        return name in TYPES.values()


KINDS: Mapping[str, PatternSpec] = _BuiltIn()


def kind_of(word: str) -> PatternSpec | None:
    """The type named *word* (`chain_of_command` as well as `chain`), or None."""
    return KINDS[TYPES[word]] if word in TYPES else None


@cache
def scalars_of(kind: str) -> Mapping[str, str]:
    """The scalar values of a result of *kind*, which conditions can compare, with their types in words."""
    return {name: _SCALARS[known] for name, known in _results(kind) if known in _SCALARS}


def keys_of(kind: str) -> tuple[str, ...]:
    """Every key that a result of *kind* may have: scalar ones first."""
    return tuple(dict.fromkeys((*scalars_of(kind), *(name for name, _ in _results(kind)), *COMMON)))


def _results(kind: str) -> list[tuple[str, Any]]:
    """The fields of the results of *kind*, and their types."""
    found = [one for result in KINDS[kind].results for one in msgspec.structs.fields(result)]
    return [(one.name, one.type) for one in found if one.name not in COMMON]


_SCALARS: Mapping[Any, str] = {str: "text", int: "integer", float: "number", float | None: "number", bool: "boolean"}


def read_config(config: type[Config], written: Mapping[str, Any]) -> tuple[Config | None, list[Fault]]:
    """Read the configuration in *written*; return it, or all its faults."""
    found = list(_config_faults(config, written))
    if found:
        return None, found
    return msgspec.convert(dict(written), config, strict=True), []


def faults(kind: PatternSpec, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Fault]:
    """Faults of a pattern of *kind*: of its configuration *written*, then of its slots, *names* in order."""
    config, wrong = read_config(kind.config, written)
    yield from wrong
    if config is not None:
        yield from config.slot_faults(tuple(names))
        for is_idle, name, why in config.idle_settings(written, tuple(names)):
            if is_idle:
                yield Fault("idle-config", f"{name} has no effect: {why}", f"config.{name}", Severity.WARNING)


def _config_faults(config: type[Config], written: Mapping[str, Any]) -> Iterator[Fault]:
    known = _fields(config)
    for name, value in written.items():
        field = known.get(name)
        if field is None:
            hint = did_you_mean(name, known) or (f"known settings: {', '.join(known)}" if known else "it has none")
            yield Fault("unknown-config", f"unknown setting {name!r}", f"config.{name}", hint=hint)
            continue
        yield from _value_faults(name, value, field.type)


def _value_faults(name: str, value: Any, wanted: Any) -> Iterator[Fault]:
    """Faults of *value* at *name*, `mapping.check`; the entries of a table are checked separately."""
    inner = get_args(wanted)
    if isinstance(value, set | frozenset):  # msgspec would accept a set, in an order that differs between processes
        yield Fault("bad-config", _told(name, value, "Expected `array`, got a set", ()), f"config.{name}")
        return
    if get_origin(wanted) is dict and inner[0] is str and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _value_faults(f"{name}.{key}", item, inner[1])
        return
    try:
        msgspec.convert(_listed(value), wanted, strict=True)
    except msgspec.ValidationError as error:
        members = inner if get_origin(wanted) is Literal else ()
        hint = did_you_mean(value, members) if isinstance(value, str) else ""
        yield Fault("bad-config", _told(name, value, str(error), members), f"config.{name}", hint=hint)


@cache
def _fields(config: type[Config]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(config)}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""msgspec's type names in plain words."""
_TYPE = re.compile(r"`(\w+(?: \| \w+)*)`")


def _told(name: str, value: Any, why: str, members: Sequence[str]) -> str:
    reason, _, path = why.partition(" - at `$")
    reason = _TYPE.sub(lambda found: " or ".join(_TYPES.get(word, word) for word in found[1].split(" | ")), reason)
    place = name + path.rstrip("`") if path else name
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    shown = shown if len(shown) <= 60 else shown[:60] + "…"
    if members:
        reason = f"expected one of {', '.join(members)}"
    if name == "composition_type":
        return f"Unknown composition type: {value if isinstance(value, str) else shown}; {reason}"
    return f"{place} is {shown}: {reason[:1].lower()}{reason[1:]}"
