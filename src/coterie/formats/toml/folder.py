"""A loop's folder, read whole: its topology, the prompts its roles name, and who speaks for which role."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie.diagnostics import Diagnostic
from coterie.formats.folders import AGENTS, TOPOLOGY
from coterie.formats.toml.document import Document, shown
from coterie.formats.toml.roles import read_loop
from coterie.topology.loop import Role
from coterie.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Folder:
    """A loop's folder and what was found in it.

    Attributes:
        file: The path of its `topology.toml`, which need not be there, and *text* what stands in it.
        topology: None when that cannot be read.
    """

    file: str
    topology: Topology | None
    text: str
    diagnostics: tuple[Diagnostic, ...]


def read_folder(path: Path) -> Folder:
    """Read the loop in the folder *path*. Without a `topology.toml` it is a loop without roles."""
    found: list[Diagnostic] = []
    file = str(path / TOPOLOGY)
    document = Document(path / TOPOLOGY, file, found.append)
    agents = Document(path / AGENTS, str(path / AGENTS), found.append)
    if not document.ok:
        return Folder(file, None, document.text, tuple(found))
    loop = read_loop(document)
    roles = tuple(_with_prompt(role, path, document) for role in loop.roles)
    loop = replace(loop, roles=roles, agents=_agents(agents))
    name = document.values.get("name", "")
    if not isinstance(name, str):
        document.error("bad-value", f"'name' of the topology is a text, not {shown(name)}", document.span("name"))
        name = ""
    spans = {"name": span} if (span := document.span("name")) is not None else {}
    topology = Topology(name=name or path.resolve().name, loop=loop, file=file, span=span, spans=spans)
    return Folder(file, topology, document.text, tuple(found))


def _with_prompt(role: Role, folder: Path, document: Document) -> Role:
    """*role* with the text of the file that its prompt stands in; a prompt written in place wins."""
    if role.prompt or not role.prompt_file:
        return role
    span = role.spans.get("prompt_file") or role.span
    path = (folder / role.prompt_file).resolve()
    if not path.is_relative_to(folder.resolve()):
        message = f"the prompt of role {role.id!r} lies outside the loop's folder: {role.prompt_file!r}"
        document.error("outside-folder", message, span, "put the file into the folder")
        return role
    try:
        return replace(role, prompt=path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not UTF-8 text"
        message = f"the prompt of role {role.id!r} cannot be read: {role.prompt_file!r}: {reason or failure}"
        document.error("no-prompt-file", message, span, "paths begin at the loop's folder")
        return role


def _agents(document: Document) -> Mapping[str, Any]:
    """What `agents.toml` says: an agent for each role of a preset; what is no text says nothing."""
    for name in document.values.keys() - {"defaults", "preset"}:
        hint = "it is kept, and has no effect"
        document.warning("unknown-field", f"agents.toml has no table {name!r}", document.span(name), hint)
    presets = document.table("preset")
    for name, table in presets.items():
        if not isinstance(table, dict):
            document.error("bad-value", f"'preset.{name}' is a table", document.span("preset", name))
    return {
        "defaults": dict(document.table("defaults")),
        "preset": {name: table for name, table in presets.items() if isinstance(table, dict)},
    }
