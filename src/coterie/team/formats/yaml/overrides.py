"""Values given to the settings of a pattern when it is run or imported: `max_rounds`, `accuracy.ada`.

They replace the file's values before it is read, so the same rules apply. `jury/max_rounds` is a setting of the inline
team at the slot `jury`.
"""

import json
from collections.abc import Mapping
from typing import Any

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error
from coterie.team.formats.yaml.agents import overridden
from coterie.team.formats.yaml.document import Leaf, Report, Sequence, Table, Value, load, plain, without
from coterie.team.topology.checks.facts import listing
from coterie.team.topology.patterns.kinds import kind_of, read_config


def with_settings(pattern: Table, agents: Mapping[str, Table], given: Mapping[str, Any], report: Report) -> Table:
    """The table *pattern* with the settings *given*; invalid ones are reported and skipped.

    Args:
        agents: The agents that the file declares; some may be teams.
        given: The values by setting. Texts are parsed as in the file: `5` is a number, `[a, b]` a list.
    """
    for name, value in given.items():
        *slots, setting = name.split("/")
        try:
            pattern = _set(pattern, agents, slots, setting, _Given(name, value))
        except InvalidValue as wrong:
            report(wrong.found)
    return pattern


class InvalidValue(Exception):
    """A value that is given to a setting is invalid, or there is no such setting."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.found: Diagnostic = error(code, message, hint=hint)
        super().__init__(message)


class _Given:
    """One value, and the setting it is given to."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, read_value(name, value)


def _set(pattern: Table, agents: Mapping[str, Table], slots: list[str], setting: str, given: _Given) -> Table:
    """*pattern* with the setting applied to the team at the path *slots*."""
    if not slots:
        return _configured(pattern, setting, given)
    slot, *rest = slots
    filled = _table(pattern, "slots")
    if slot not in filled.entries:
        hint = did_you_mean(slot, filled.entries) or f"its slots are {listing(list(filled.entries)) or 'none'}"
        raise InvalidValue("unknown-param", f"{given.name!r} cannot be set: there is no slot {slot!r}", hint)
    written = filled.entries[slot]
    named = written.entries.get("agent") if isinstance(written, Table) else written
    agent = named.value if isinstance(named, Leaf) and isinstance(named.value, str) else ""
    base, own = agents.get(agent, Table()), written if isinstance(written, Table) else Table(span=written.span)
    team = overridden(base, without(own, ("agent",))).entries.get("pattern")
    if not isinstance(team, Table):
        where = f"is in {team.value!r}" if isinstance(team, Leaf) else "is not an inline pattern"
        message = f"{given.name!r} cannot be set: the agent of {slot!r} {where}"
        raise InvalidValue("unknown-param", message, "set it there" if isinstance(team, Leaf) else "remove it")
    if agent and "agent" not in own.entries:
        own = _with(own, "agent", Leaf(agent, own.span))
    own = _with(own, "pattern", _set(team, agents, rest, setting, given))
    return _with(pattern, "slots", _with(filled, slot, own))


def _configured(pattern: Table, setting: str, given: _Given) -> Table:
    """*pattern* with one of its settings replaced; a dotted name is an entry of a table."""
    keys = setting.split(".")
    type_ = pattern.entries.get("type")
    kind = kind_of(type_.value) if isinstance(type_, Leaf) and isinstance(type_.value, str) else None
    whole = given.value
    for key in reversed(keys):
        whole = {key: whole}
    for fault in read_config(kind.config, whole)[1] if kind is not None else ():
        code = "unknown-param" if fault.code == "unknown-config" else "bad-param"
        hint = fault.hint
        if code == "unknown-param" and keys[0] in _table(pattern, "slots").entries:
            hint = f"to set a value of a team in a slot, write {keys[0]}/SETTING"
        why = fault.message[:1].lower() + fault.message[1:]
        raise InvalidValue(code, f"{given.name!r} cannot be set: {why}", hint)
    return _with(pattern, "config", entered(_table(pattern, "config"), keys, given.value))


def entered(table: Table, keys: list[str], value: Any) -> Table:
    """*table* with *value* at the path *keys*."""
    key, *rest = keys
    span = table.keys.get(key, table.span)
    return _with(table, key, entered(_table(table, key), rest, value) if rest else placed(value, span))


def _with(table: Table, key: str, value: Value) -> Table:
    return Table({**table.entries, key: value}, {**table.keys, key: table.keys.get(key, table.span)}, table.span)


def _table(table: Table, key: str) -> Table:
    """The table at *key*, or an empty one."""
    found = table.entries.get(key)
    return found if isinstance(found, Table) else Table(span=table.keys.get(key, table.span))


def read_value(name: str, value: Any) -> Any:
    """*value*, given to the setting *name*, as plain data; a text is parsed as YAML.

    Raises:
        InvalidValue: If it is invalid.
    """
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("bad-param", f"the value given to {name!r} is not plain data: {value!r}") from None
    found: list[Diagnostic] = []
    read = load(text, found.append) if text.strip() else Leaf(None, Span(1, 1))
    if read is None or found:
        raise InvalidValue("bad-param", f"the value given to {name!r} is invalid: {found[0].message}", found[0].hint)
    return plain(read)


def placed(value: Any, span: Span) -> Value:
    """Plain data *value* with *span* as its location in reports."""
    match value:
        case dict():
            return Table({key: placed(item, span) for key, item in value.items()}, dict.fromkeys(value, span), span)
        case list():
            return Sequence(tuple(placed(item, span) for item in value), span)
        case _:
            return Leaf(value, span)
