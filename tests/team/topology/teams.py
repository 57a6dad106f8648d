"""Small teams written as text, and what the checks say of them."""

import re

from coterie.base.diagnostics import Diagnostic, Fix
from coterie.team import formats
from coterie.team.topology.checks import check
from coterie.team.topology.model import Topology


def team(flow: str, agents: str = "", *, blocks: str = "", patterns: str = "pipeline, fan-out") -> str:
    """A file with *flow*. *agents* are declared with a model, one per line, `NAME` or `NAME fields`."""
    lines = [line.strip() for line in agents.strip().splitlines()]
    declared = [f"  agent {line.split()[0]} {{ model: m {line.partition(' ')[2]} }}" for line in lines if line]
    return "\n".join([f"topology t : [{patterns}] {{", *declared, blocks, "  flow {", flow, "  }", "}", ""])


def letters(flow: str, *, blocks: str = "", patterns: str = "pipeline, fan-out", **fields: str) -> str:
    """A file with *flow*, whose one-letter names are declared, with *fields* for some: `b="outputs { v: x | y }"`."""
    text = re.sub(r'"[^"]*"', "", flow)
    names = sorted(set(re.findall(r"(?<![\w.-])[a-z](?![\w-])", text)) - set(re.findall(r"== ([a-z])\b", text)))
    agents = "\n".join(f"{name} {fields.get(name, '')}" for name in names)
    return team(flow, agents, blocks=blocks, patterns=patterns)


def topology(text: str) -> Topology:
    """What *text* describes; it has nothing that a reader would object to."""
    source = formats.read_text(text)
    assert source.topology is not None
    return source.topology


def checked(text: str) -> list[Diagnostic]:
    """What the checks say of *text*."""
    return check(topology(text))


def findings(text: str) -> list[str]:
    """The same as lines, `error[code] marked text: message`; the marked text is what the caret is under."""
    lines = text.splitlines()
    found = []
    for each in checked(text):
        marked = ""
        if each.span is not None:
            start = each.span.column - 1
            marked = lines[each.span.line - 1][start : start + each.span.length]
        found.append(f"{each.severity.value}[{each.code}] {marked}: {each.message}")
    return found


def codes(text: str) -> list[str]:
    """Only the codes."""
    return [each.code for each in checked(text)]


def mended(text: str, fix: Fix | None) -> str:
    """*text* with *fix* applied."""
    assert fix is not None
    return text[: fix.span.offset] + fix.text + text[fix.span.offset + fix.span.length :]
