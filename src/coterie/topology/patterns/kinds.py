"""The seven pattern types: names, inputs, and valid slots and settings.

Messages contain those of the reference, `Debate requires 'mediator' slot`, because programs search for them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import msgspec

from coterie.diagnostics import did_you_mean
from coterie.topology.patterns import slots
from coterie.topology.patterns.configs import (
    ChainSettings,
    CompoundSettings,
    Config,
    CrossCheckSettings,
    DebateSettings,
    DelegationSettings,
    EnsembleSettings,
    PipelineSettings,
)
from coterie.topology.patterns.faults import Fault


@dataclass(frozen=True, slots=True)
class PatternSpec:
    """One pattern type.

    Attributes:
        name: As it is stored: `debate`, `chain`, `delegation`, `ensemble`, `pipeline`, `crosscheck`, `compound`.
        title: As people read it.
        config: The class of its configuration.
        rules: Finds faults of its slots, given a valid configuration.
        keys: Input keys that may hold its task, the usual one first; empty: any input is accepted.
        aliases: Other accepted names.
    """

    name: str
    title: str
    config: type[Config]
    rules: Callable[[Any, Sequence[str]], Iterator[Fault]]
    keys: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_ALL = (
    PatternSpec("debate", "Debate", DebateSettings, slots.of_debate, keys=("question", "topic")),
    PatternSpec(
        "chain", "Chain of command", ChainSettings, slots.of_chain, keys=("task",), aliases=("chain_of_command",)
    ),
    PatternSpec("delegation", "Delegation", DelegationSettings, slots.of_delegation, keys=("task", "tasks")),
    PatternSpec("ensemble", "Ensemble", EnsembleSettings, slots.of_ensemble, keys=("prompt",)),
    PatternSpec("pipeline", "Pipeline", PipelineSettings, slots.of_pipeline),
    PatternSpec("crosscheck", "Cross-check", CrossCheckSettings, slots.of_crosscheck, ("prompt",), ("cross_check",)),
    PatternSpec("compound", "Compound", CompoundSettings, slots.of_compound),
)
KINDS: Mapping[str, PatternSpec] = MappingProxyType({kind.name: kind for kind in _ALL})
"""By stored name, in the order of the documentation."""

_BY_WORD = {word: kind for kind in KINDS.values() for word in (kind.name, *kind.aliases)}


def kind_of(word: str) -> PatternSpec | None:
    """The type named *word* (`chain_of_command` as well as `chain`), or None."""
    return _BY_WORD.get(word)


def words() -> tuple[str, ...]:
    """Every name of a type."""
    return tuple(_BY_WORD)


def read_config(config: type[Config], written: Mapping[str, Any]) -> tuple[Config | None, list[Fault]]:
    """The configuration in *written*, or all its faults."""
    found = list(_config_faults(config, written))
    if found:
        return None, found
    return msgspec.convert(dict(written), config, strict=True), []


def faults(kind: PatternSpec, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Fault]:
    """Faults of a pattern of *kind*: of its configuration *written*, then of its slots, *names* in order."""
    config, wrong = read_config(kind.config, written)
    yield from wrong
    if config is not None:
        yield from kind.rules(config, tuple(names))
        yield from slots.without_effect(config, written, tuple(names))


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
    if isinstance(value, set | frozenset):  # msgspec would accept it, in an order that differs between processes
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
