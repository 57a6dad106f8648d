"""Read `topology.toml`: the roles with their fields, and the handoff map."""

from collections.abc import Collection, Mapping
from typing import Any

from coterie.base.diagnostics import Fix, Span, did_you_mean
from coterie.team.formats.toml.document import TomlDocument, shown
from coterie.team.options.agents import GUARDS, LOOP_OPTIONS, NO_GUARD, is_table
from coterie.team.options.values import ValueKind
from coterie.team.topology import expressions
from coterie.team.topology.events import is_pattern
from coterie.team.topology.loop import Handoff, Loop, Role

BACKEND = "backend_"
BACKEND_FIELDS = {name + option.unit: option.kind for name, option in LOOP_OPTIONS.items()}
"""The backend fields of a role, without the prefix, and the kinds of their values."""
ROLE_FIELDS = (
    "id",
    "emits",
    "prompt",
    "prompt_file",
    "topology",
    "events",
    *(BACKEND + name for name in BACKEND_FIELDS),
)
TOP_FIELDS = ("name", "completion", "role", "handoff")
_HARMLESS = ("meta", "metadata")
"""Unknown tables that are only data; any other may be meant to restrict the loop."""

_WANTED = {"text": "a text", "list": "a list of texts", "flag": "true or false"}


def read_loop(document: TomlDocument) -> Loop:
    """Read *document*, a `topology.toml`."""
    for name in [each for each in document.values if each not in TOP_FIELDS]:
        report_unknown(document, "the topology", (name,), document.values[name], TOP_FIELDS)
    tables = document.values.get("role", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        document.error("bad-value", "roles are written as [[role]] tables", document.span("role"))
        tables = []
    roles = [role for at, table in enumerate(tables) if (role := _role(document, at, table)) is not None]
    return Loop(
        completion=_text(document, document.values, "completion", "the topology", "completion"),
        roles=tuple(roles),
        handoff=tuple(_handoff(document, event, value) for event, value in document.table("handoff").items()),
        span=document.span("name"),
        spans={name: span for name in TOP_FIELDS if (span := document.span(name)) is not None},
    )


def _role(document: TomlDocument, at: int, table: Mapping[str, Any]) -> Role | None:
    """The role in the *at*-th table; None, with a report, if it has no id."""
    span = document.span("role", at, "id") or document.span("role", at)
    id_ = _text(document, table, "id", "a role", "role", at, "id")
    if not id_:
        if "id" not in table or table["id"] == "":
            document.error("no-role-id", "a role has no id", span, 'give it one: id = "builder"')
        return None
    owner = f"role {id_!r}"
    if "emits" not in table:
        document.error("no-emits", f"{owner} has no 'emits'", span, 'write emits = ["…"], or [] for nothing')
    for name in [each for each in table if each not in ROLE_FIELDS]:
        report_unknown(document, owner, ("role", at, name), table[name], ROLE_FIELDS)
    backend = {
        name.removesuffix("_ms"): value
        for name, kind in BACKEND_FIELDS.items()
        if (value := _backend(document, table, name, kind, owner, at)) is not None
    }
    return Role(
        id=id_,
        emits=_emits(document, table, owner, at),
        prompt=_text(document, table, "prompt", owner, "role", at, "prompt"),
        prompt_file=_text(document, table, "prompt_file", owner, "role", at, "prompt_file"),
        backend=backend,
        topology=_text(document, table, "topology", owner, "role", at, "topology"),
        events=_events(document, table.get("events", {}), owner, at),
        kept={name: table[name] for name in table if name not in ROLE_FIELDS},
        span=span,
        spans=_spans(document, table, at),
    )


def _spans(document: TomlDocument, table: Mapping[str, Any], at: int) -> dict[str, Span]:
    """The span of each field, and of each of the `events` as `events.review.passed`."""
    events = table.get("events")
    paths: dict[str, tuple[str, ...]] = {name: (name,) for name in table}
    paths |= {f"events.{event}": ("events", event) for event in events} if isinstance(events, dict) else {}
    return {name: span for name, path in paths.items() if (span := document.span("role", at, *path)) is not None}


def _events(document: TomlDocument, value: Any, owner: str, at: int) -> Mapping[str, str]:
    """The events of a team, with their conditions."""
    if isinstance(value, dict) and all(isinstance(when, str) for when in value.values()):
        return dict(value)
    message = f"'events' of {owner} must be a table of texts, not {shown(value)}"
    hint = 'write events = {"review.passed" = "final_approved == true", "review.rejected" = ""}'
    document.error("bad-value", message, document.span("role", at, "events"), hint)
    return {}


def _emits(document: TomlDocument, table: Mapping[str, Any], owner: str, at: int) -> tuple[str, ...]:
    events = _list(document, table.get("emits", []), f"'emits' of {owner}", document.span("role", at, "emits"))
    for event in events:
        _check_pattern(document, event, document.span("role", at, "emits"))
    return events


def _handoff(document: TomlDocument, event: str, value: Any) -> Handoff:
    span = document.span("handoff", event)
    _check_pattern(document, event, span)
    targets = (value,) if isinstance(value, str) else _list(document, value, f"handoff of {event!r}", span)
    return Handoff(event=event, targets=targets, span=span)


def _check_pattern(document: TomlDocument, event: str, span: Span | None) -> None:
    if is_pattern(event) and (problem := expressions.problem(event[1:-1])):
        message = f"{shown(event)} is not a valid regular expression: {problem}"
        document.error("bad-pattern", message, span, "correct it; a name without slashes is matched literally")


def _backend(document: TomlDocument, table: Mapping[str, Any], name: str, kind: ValueKind, owner: str, at: int) -> Any:
    """The field `backend_<name>`; None if not set or empty."""
    field = BACKEND + name
    value = table.get(field)
    match kind.form, value:
        case _, None | "":
            return None
        case "text", str() if not kind.choices or value in kind.choices:
            return value
        case "list", list():
            return _list(document, value, f"{field!r} of {owner}", document.span("role", at, field))
        case "flag", bool():
            return value
        case "seconds", int() if not isinstance(value, bool) and value >= kind.least:
            return value / 1000
    wanted = f"one of {', '.join(kind.choices)}" if kind.choices else _WANTED.get(kind.form, _milliseconds(kind))
    message = f"{field!r} of {owner} must be {wanted}, not {shown(value)}"
    document.error("bad-value", message, document.span("role", at, field))
    return None


def _milliseconds(kind: ValueKind) -> str:
    return f"a whole number of milliseconds{' above 0' if kind.least else ', 0 or more'}"


def _text(document: TomlDocument, table: Mapping[str, Any], name: str, owner: str, *path: str | int) -> str:
    value = table.get(name, "")
    if isinstance(value, str):
        return value
    document.error("bad-value", f"{name!r} of {owner} must be a text, not {shown(value)}", document.span(*path))
    return ""


def _list(document: TomlDocument, value: Any, what: str, span: Span | None) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    document.error("bad-value", f"{what} must be a list of texts, not {shown(value)}", span, 'write ["a", "b"]')
    return ()


def report_unknown(
    document: TomlDocument, owner: str, path: tuple[str | int, ...], value: Any, known: Collection[str]
) -> None:
    """Report the unknown entry *path* of *owner*: an error for a table, or a key, that may restrict something."""
    name, span = str(path[-1]), document.span(*path)
    close = did_you_mean(name, known)
    if is_table(value) and (name not in _HARMLESS or len(path) > 1):
        document.error("bad-value", f"{owner} has no table {name!r}", span, close or NO_GUARD)
    elif name.removeprefix(BACKEND) in GUARDS:
        document.error("bad-value", f"{owner} has {name!r}, a guard that coterie does not have", span, NO_GUARD)
    else:
        fix = Fix("correct the name", span, close.split("'")[1]) if close and span is not None else None
        hint = close or "it is kept but has no effect"
        document.warning("unknown-field", f"{owner} has no field {name!r}", span, hint, fix)
