"""Warn about safety settings of a file that its backends do not enforce."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, warning
from coterie.team.options.backends import REGISTRY
from coterie.team.planning.permissions import read_rules
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.block import Block
from coterie.team.topology.checks.facts import listing, title
from coterie.team.topology.conditions import as_text
from coterie.team.topology.model import Agent, Topology

FIELDS = ("tools", "disallowed-tools", "permissions")
"""The fields of an agent that models enforce, and other backends if they list them in `honours`."""
RULES = ("allow", "deny", "ask")
"""The fields of `settings` that only models enforce."""

_REDACTED = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Suffixes of names whose values are redacted."""


def not_enforced(topology: Topology, agents: Mapping[str, AgentPlan | None]) -> Iterator[Diagnostic]:
    """A warning for each part that has no effect, by backend; agents without a backend are left out.

    Args:
        agents: The plans by name.
    """
    settings = topology.block("settings")
    nodes = {node.name: node for node in topology.nodes if isinstance(node, Agent)}
    owners: dict[str, list[Agent]] = {}
    for name, agent in agents.items():
        if agent is not None and name in nodes and agent.backend != "scripted":
            owners.setdefault("topology" if agent.child is not None else agent.backend, []).append(nodes[name])
    for backend, own in owners.items():
        if backend in ("", "model"):
            continue
        if said := [name for name in RULES if settings.get(name)]:
            yield _warning(backend, own, f"{listing(said)} of 'settings'", settings.place(said[0]))
        by_fields: dict[tuple[str, ...], list[Agent]] = {}
        for node in own:
            honoured = REGISTRY[backend].honours if backend in REGISTRY else ()
            unheard = tuple(name for name in _given(node) if name not in honoured)
            by_fields.setdefault(unheard, []).append(node)
        for fields, some in by_fields.items():
            if fields:
                span = some[0].spans.get(fields[0]) or some[0].extra.place(fields[0])
                yield _warning(backend, some, listing(fields), span)
    for owner, block in [("'settings'", settings), *((title(node), node.extra) for node in nodes.values())]:
        if (wanted := block.get("sandbox")) not in ("", "false", "none", False):
            message = f"'sandbox: {as_text(wanted)}' of {owner} is not enforced"
            hint = "to confine a program or a coding agent, write extensions { coterie { sandbox: required } }"
            yield warning("not-enforced", message, block.place("sandbox"), hint)
    models = [agent for node in owners.get("model", ()) if (agent := agents[node.name]) is not None]
    offered = {tool for agent in models for tool in agent.options.get("built_in_tools", ())}
    rules = read_rules(settings.get("ask", ()), forbid=True)
    if asking := [rule.text for rule in rules if any(rule.covers(tool, forbids=True) for tool in offered)]:
        message = (
            f"calls that match {listing(asking)} in 'ask' of 'settings' are refused: no model can request approval"
        )
        yield warning("not-enforced", message, settings.place("ask"))
    yield from _variables(topology.block("env").entries)


def variables_of(topology: Topology) -> dict[str, str]:
    """The variables of the block `env` with values in the file."""
    entries = topology.block("env").entries
    return {entry.name: entry.get("value") for entry in entries if entry.get("kind") in ("", "sensitive")}


def _variables(entries: Iterable[Block]) -> Iterator[Diagnostic]:
    for entry in entries:
        kind = entry.get("kind")
        if kind in ("secret", "encrypted"):
            message = f"{entry.name!r} of 'env' is not set: {kind!r} values cannot be read yet"
            hint = f"set {entry.name} in the environment of the run"
            yield replace(warning("not-enforced", message, entry.span, hint), secret=True)
        elif kind == "sensitive" and not entry.name.upper().endswith(_REDACTED):
            message = f"{entry.name!r} of 'env' is not redacted: only values of names such as {entry.name}_KEY are"
            yield replace(warning("not-enforced", message, entry.span), secret=True)


def _given(node: Agent) -> Iterator[str]:
    """The fields that *node* sets."""
    for name in FIELDS:
        if node.tools is not None if name == "tools" else node.extra.get(name):
            yield name


def _warning(backend: str, nodes: Sequence[Agent], parts: str, span: Span | None) -> Diagnostic:
    whose = f"{'agent' if len(nodes) == 1 else 'agents'} {listing(node.name for node in nodes)}"
    who = f"the team at {whose}" if backend == "topology" else f"the backend {backend!r} of {whose}"
    return warning("not-enforced", f"{who} does not enforce {parts}", span)
