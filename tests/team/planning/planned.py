"""Plans of teams written as text."""

import re
from pathlib import Path

from coterie.base.diagnostics import Diagnostic
from coterie.team import formats
from coterie.team.planning import plan
from coterie.team.planning.plan import Plan
from coterie.team.topology.model import Topology


def team(flow: str, blocks: str = "", **agents: str) -> str:
    """A file with *flow*; *agents* are declared with the fields given, all other one-letter names with a model."""
    names = set(re.findall(r"(?<![\w.-])[a-z](?![\w-])", re.sub(r'"[^"]*"', "", flow)))
    taken = set(re.findall(r"(?:gate|human|action|group) ([a-z])\b", blocks))
    declared = dict.fromkeys(sorted(names - taken), "model: m") | agents
    lines = [f"  agent {name} {{ {fields} }}" for name, fields in declared.items()]
    return "\n".join(["topology t : [pipeline, fan-out] {", *lines, blocks, f"  flow {{ {flow} }}", "}", ""])


def extension(*, own: str = "", default: str = "") -> str:
    """A file with one agent `a`, its own coterie extension and the topology's."""
    top = f"  extensions {{ coterie {{ {default} }} }}" if default else ""
    return team("a -> b", top, a=f"model: m  extensions {{ coterie {{ {own} }} }}")


def topology(text: str, folder: Path | None = None) -> Topology:
    """What *text* describes, as if it lay in *folder*; it passes the checks."""
    source = formats.read_text(text, str(folder / "team.at") if folder else "", folder)
    assert source.topology is not None
    assert not source.has_errors, source.diagnostics
    return source.topology


def planned(text: str, folder: Path | None = None, backend: str | None = None) -> Plan:
    """The plan of *text*, of which there is nothing to say."""
    made, found = plan(topology(text, folder), backend=backend)
    assert found == []
    assert made is not None
    return made


def found(text: str, folder: Path | None = None, backend: str | None = None) -> list[Diagnostic]:
    """What planning says of *text*."""
    made, said = plan(topology(text, folder), backend=backend)
    assert (made is None) == any(each.is_error for each in said)
    return said


def sayings(text: str, folder: Path | None = None, backend: str | None = None) -> list[str]:
    """The same as lines: `error[code] marked text: message`."""
    lines = text.splitlines()
    said = []
    for each in found(text, folder, backend):
        marked = ""
        if each.span is not None:
            marked = lines[each.span.line - 1][each.span.column - 1 :][: each.span.length]
        said.append(f"{each.severity.value}[{each.code}] {marked}: {each.message}")
    return said


def arrows(plan: Plan) -> list[str]:
    """The arrows of *plan*, each with what it says: `g -> a when g.passed == false max 2 on-max fail`."""
    assert plan.coordination is not None
    lines = []
    for group in plan.coordination.groups:
        line = str(group)
        if group.when is not None:
            line += f" when {group.when}"
        if group.max is not None:
            line += f" max {group.max}"
        if group.per != "run":
            line += f" per {group.per}"
        if group.on_max != "forward":
            line += f" on-max {group.on_max}"
        lines.append(line)
    return lines
