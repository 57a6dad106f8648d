"""Read a loop's folder: its topology, the prompts of its roles, and `agents.toml`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.base import files
from coterie.base.diagnostics import Diagnostic, did_you_mean
from coterie.team.formats import bounds
from coterie.team.formats.folders import AGENTS, TOPOLOGY
from coterie.team.formats.toml.document import TomlDocument, shown
from coterie.team.formats.toml.roles import TOP_FIELDS, read_loop, report_unknown
from coterie.team.topology.block import Block
from coterie.team.topology.loop import Role
from coterie.team.topology.model import Topology

_TABLES = ("defaults", "preset")
"""Those of `agents.toml`."""


class Folder(Struct, frozen=True):
    """A loop's folder and its contents.

    Attributes:
        file: The path of its `topology.toml`, which may be missing; *text* is the content.
        topology: None if that is unreadable.
    """

    file: str
    topology: Topology | None
    text: str
    diagnostics: tuple[Diagnostic, ...]


def read_folder(path: Path, text: str | None = None) -> Folder:
    """Read the loop in the folder *path*. Without a `topology.toml`, the loop has no roles.

    Args:
        text: Used instead of the content of its `topology.toml`.
    """
    found: list[Diagnostic] = []
    file = str(path / TOPOLOGY)
    document = TomlDocument(path / TOPOLOGY, file, found.append, text)
    agents = TomlDocument(path / AGENTS, str(path / AGENTS), found.append)
    if not document.ok:
        return Folder(file, None, document.text, tuple(found))
    loop = read_loop(document)
    roles = tuple(_with_prompt(role, path, document) for role in loop.roles)
    loop = replace(loop, roles=roles, agents=_agents(agents, path.resolve().name, [role.id for role in roles]))
    name = document.values.get("name", "")
    if not isinstance(name, str):
        document.error("bad-value", f"'name' of the topology must be a text, not {shown(name)}", document.span("name"))
        name = ""
    spans = {"name": span} if (span := document.span("name")) is not None else {}
    topology = Topology(
        name=name or path.resolve().name, loop=loop, kept=tuple(_kept(document)), file=file, span=span, spans=spans
    )
    return Folder(file, topology, document.text, tuple(found))


def _kept(document: TomlDocument) -> Iterator[Block]:
    """Unknown entries of the topology, reported when the loop was read."""
    for name, value in document.values.items():
        if name not in TOP_FIELDS:
            yield Block(kind=name, kept=value if isinstance(value, dict) else {name: value}, span=document.span(name))


def _with_prompt(role: Role, folder: Path, document: TomlDocument) -> Role:
    """*role* with its prompt file's text; an inline prompt takes precedence."""
    if role.prompt or not role.prompt_file:
        return role
    span = role.spans.get("prompt_file") or role.span
    path = files.inside(folder, role.prompt_file)
    if path is None:
        message = f"the prompt of role {role.id!r} is outside the loop's folder: {role.prompt_file!r}"
        document.error("outside-folder", message, span, "move the file into the folder")
        return role
    try:
        return replace(role, prompt=bounds.read_text(path))
    except FileNotFoundError:
        code, reason = "no-such-file", "does not exist"
    except OSError as failure:
        code, reason = "unreadable-file", f"cannot be read: {failure.strerror or failure}"
    message = f"the prompt of role {role.id!r}, {role.prompt_file!r}, {reason}"
    document.error(code, message, span, "paths are relative to the loop's folder")
    return role


def _agents(document: TomlDocument, preset: str, roles: Sequence[str]) -> Mapping[str, Any]:
    """The contents of `agents.toml`: an agent for each role of a preset; other values are ignored.

    The table of this *preset* may only name *roles*.
    """
    for name in [each for each in document.values if each not in _TABLES]:
        report_unknown(document, AGENTS, (name,), document.values[name], _TABLES)
    presets = document.table("preset")
    for name, table in presets.items():
        if not isinstance(table, dict):
            document.error("bad-value", f"'preset.{name}' must be a table", document.span("preset", name))
    defaults = document.table("defaults")
    tables = {("preset", name): table for name, table in presets.items() if isinstance(table, dict)}
    for place, table in [(("defaults",), defaults), *tables.items()]:
        for role, agent in table.items():
            if not isinstance(agent, str):
                name = ".".join((*place, role))
                document.error("bad-value", f"{name!r} must be a text, not {shown(agent)}", document.span(*place, role))
            elif roles and place == ("preset", preset) and role not in (*roles, "default"):
                hint = did_you_mean(role, roles) or f"its roles: {', '.join(roles)}"
                document.warning("no-such-role", f"the loop has no role {role!r}", document.span(*place, role), hint)
    return {
        "defaults": dict(defaults),
        "preset": {name: table for name, table in presets.items() if isinstance(table, dict)},
    }
