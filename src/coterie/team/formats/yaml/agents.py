"""Read an agent of a pattern file: backend, rules, tools."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import Span, did_you_mean, error
from coterie.team.formats.prompts import read_prompt
from coterie.team.formats.yaml.document import Leaf, Report, Table, merged, plain, without
from coterie.team.formats.yaml.fields import TableReader
from coterie.team.options.agents import DEFAULT_KEYS
from coterie.team.options.backends import CODING
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.topology.checks.facts import UNREADABLE, listing
from coterie.team.topology.model import Agent, Topology

BACKENDS = ("human", "model", "command", "scripted", *sorted(CODING))
"""Values of `type`."""

TEAMS = {"flow": (".at",), "loop": (), "pattern": (".yaml", ".yml")}
"""The entries that name a team, and the suffixes of its files."""
_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_WAYS = ("model", "command", *TEAMS, "ask", "type")
_OWN = ("backend", "topology", "pattern", "type", "options", "tools", "timeout")
"""Options that are entries of another form here."""
EXTENSION = {key.replace("-", "_"): key for key in DEFAULT_KEYS if key not in _OWN} | {"ask": "ask"}
"""Entries with the meaning of a coterie extension key; planning reads their values."""
ENTRIES = (
    *_WAYS,
    "prompt",
    "description",
    "tools",
    "max_retries",
    "timeout_seconds",
    "fallback",
    "capabilities",
    "budget",
    *(entry for entry in EXTENSION if entry not in _WAYS),
    *MODEL_SETTINGS,
)
"""All entries of an agent."""
_PLACES: Mapping[str, tuple[str, ...]] = {
    **{entry: (f"extension.{key}",) for entry, key in EXTENSION.items()},
    **{entry: (f"extension.options.{entry}",) for entry in MODEL_SETTINGS},
    **dict.fromkeys(TEAMS, ("extension.topology",)),
    "type": ("extension.backend", "extension.type"),
    "tools": ("extension.tools",),
    "fallback": ("on-fail",),
    "timeout_seconds": ("timeout",),
}
"""The names by which rules look for the span of an entry."""

Team = Callable[[Table, str], Topology | None]
"""Reads an inline pattern for the node of that name."""


class SlotFill(Struct, frozen=True, kw_only=True):
    """An agent, and its settings for the slot that it fills."""

    node: Agent
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None


def overridden(base: Table, over: Table) -> Table:
    """An agent's table overridden by a slot's entries; a backend of the slot replaces the agent's."""
    ways = [entry for entry in over.entries if entry in _WAYS]
    if "type" not in ways and _is_coding(base) and set(ways) <= {"model", "command"}:
        return merged(base, over)  # the model or the program for the same coding agent
    dropped = () if not ways else _WAYS if ways == ["model"] else (*_WAYS, *EXTENSION, *MODEL_SETTINGS)
    return merged(without(base, dropped), over)


def _is_coding(table: Table) -> bool:
    kind = table.entries.get("type")
    return isinstance(kind, Leaf) and kind.value in CODING


def read_agent(name: str, table: Table, span: Span | None, folder: Path | None, team: Team, report: Report) -> SlotFill:
    """Read *table* as the agent *name*, named at *span*.

    Args:
        folder: The base of relative paths.
    """
    owner = f"agent {name!r}"
    fields = TableReader(table, owner, ENTRIES, report)
    extension, spans = _extension(fields)
    model = fields.text("model")
    topology = _read_backend(fields, name, model, extension, team, report)
    prompt = fields.text("prompt")
    is_path, found = read_prompt(prompt, folder, owner, fields.span("prompt"))
    if found is not None:
        report(found)
    tools, functions = _tools(fields, report)
    if functions:
        extension["tools"] = functions
    fallback = fields.text("fallback")
    budget = TableReader(fields.table("budget", "write {calls: 5, cost: 0.5}"), "'budget'", ("calls", "cost"), report)
    node = Agent(
        name=name,
        description=fields.text("description"),
        model=model,
        prompt=prompt,
        prompt_is_path=is_path,
        tools=tools,
        timeout=fields.number("timeout_seconds"),
        retry=fields.count("max_retries"),
        on_fail=f"fallback {fallback}" if fallback else None,
        topology=topology,
        extension=extension,
        span=span,
        spans=spans,
    )
    return SlotFill(
        node=node,
        capabilities=fields.texts("capabilities") or (),
        calls=budget.count("calls"),
        cost=budget.number("cost"),
    )


def _extension(fields: TableReader) -> tuple[dict[str, Any], dict[str, Span]]:
    """The coterie extension, and the spans of all entries by the names that rules use."""
    extension: dict[str, Any] = {}
    options: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    for entry in ENTRIES:
        value, span = fields.value(entry), fields.span(entry)
        if value is None or span is None:
            continue
        spans |= dict.fromkeys((entry, *_PLACES.get(entry, ())), span)
        if entry in EXTENSION:
            extension[EXTENSION[entry]] = plain(value)
        elif entry in MODEL_SETTINGS:
            options[entry] = plain(value)
    return extension | ({"options": options} if options else {}), spans


def _read_backend(
    fields: TableReader, name: str, model: str, extension: dict[str, Any], team: Team, report: Report
) -> Topology | None:
    """Set the backend in *extension*, or return the inline team."""
    backend = fields.text("type")
    is_class = _CLASS.fullmatch(backend) is not None
    if backend and not is_class and backend not in BACKENDS:
        hint = did_you_mean(backend, BACKENDS) or f"write one of {', '.join(BACKENDS)}, or the path of a class"
        message = f"'type' of {fields.owner} is not a known backend: {backend!r}"
        report(error("unknown-backend", message, fields.span("type"), hint))
        extension["backend"] = UNREADABLE
        return None
    own = ("model", "command") if backend in CODING else ()  # options of such an agent
    ways = [way for way in _WAYS if way in fields and way not in ("type", *own)]
    if backend and backend not in ways:
        ways.append(f"type: {backend}")
    if backend in ("model", "command") and backend not in fields:
        hint = "write model: NAME" if backend == "model" else 'write command: ["program", "argument"]'
        report(error("bad-value", f"{fields.owner} has type {backend}, but no {backend}", fields.span("type"), hint))
    elif len(ways) > 1:
        message = f"{fields.owner} has {len(ways)} backends: {listing(ways)}"
        report(error("two-thinkers", message, fields.span(ways[0]), "keep one of them"))
        extension["backend"] = UNREADABLE
        return None
    if backend:
        extension["type" if is_class else "backend"] = backend
    for way, ends in TEAMS.items():
        value = fields.value(way)
        if isinstance(value, Table) and way == "pattern":
            return team(value, name)
        path = fields.text(way)
        if path and ends and not path.endswith(ends):
            assert value is not None
            fields.wrong(way, value, f"the path of a file that ends in {' or '.join(ends)}")
        elif path:
            extension["topology"] = loop_file(path) if way == "loop" else path
    if ways and not backend and not model and not extension.keys() & {"ask", "command", "topology"}:
        extension["backend"] = UNREADABLE  # already reported
    return None


def loop_file(path: str) -> str:
    """The `topology.toml` of the loop at *path*, its folder or that file."""
    return path if path.endswith("topology.toml") else f"{path.rstrip('/')}/topology.toml"


def _tools(fields: TableReader, report: Report) -> tuple[tuple[str, ...] | None, dict[str, str]]:
    """The tools by name, and Python functions as `module:function`."""
    listed = fields.texts("tools", "write [NAME, module:function]")
    if listed is None:
        return None, {}
    named = {path: path.rpartition(":")[2] for path in listed}
    return tuple(named[path] for path in listed), {name: path for path, name in named.items() if ":" in path}
