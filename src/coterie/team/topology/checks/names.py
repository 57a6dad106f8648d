"""Names: each is declared, once, and used."""

from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, did_you_mean, error, warning
from coterie.team.topology.checks.facts import UNREADABLE, Facts, mended, title
from coterie.team.topology.composition import file_of
from coterie.team.topology.model import Action, Agent, AgentGroup, AnyNode, Gate, Human, Orchestrator


def declared_once(facts: Facts) -> Iterator[Diagnostic]:
    """Each name is declared once."""
    if len(facts.declared) == len(facts.topology.nodes):
        return
    for node in facts.topology.nodes:
        first = facts.declared[node.name]
        if first is not node:
            file = file_of(first.span, facts.topology.included, "")
            place = f" ({f'{file}, ' if file else ''}line {first.span.line})" if first.span is not None else ""
            message = f"{node.name!r} is declared twice"
            yield error("duplicate-name", message, node.span, f"{title(first)}{place} has this name: choose another")


def declared_in_flow(facts: Facts) -> Iterator[Diagnostic]:
    """Nodes in the flow are declared; an undeclared one is reported at its first mention."""
    for name, span in facts.undeclared.items():
        yield facts.unknown(f"the flow names {name!r}, which is not declared", name, span)


def declared_scopes(facts: Facts) -> Iterator[Diagnostic]:
    """`per` is run, phase or a declared name."""
    for group in facts.flow.groups:
        name = group.per
        if name not in ("run", "phase") and name not in facts.declared and name not in facts.undeclared:
            hint = did_you_mean(name, ["run", "phase"]) or facts.near(name) or "write run, phase or an agent's name"
            span = group.spans.get("per") or group.span
            yield error("unknown-scope", f"'per {name}': {name!r} is not declared", span, hint)


def declared_fallbacks(facts: Facts) -> Iterator[Diagnostic]:
    """A fallback is another, declared node."""
    for node in facts.topology.nodes:
        name = fallback_of(node)
        if not name:
            continue
        span = node.spans.get("fallback") or node.spans.get("on-fail") or node.spans.get("on-timeout") or node.span
        if name == node.name:
            hint = "name another node, or use retry"
            yield error("fallback-to-itself", f"{title(node)} falls back on itself", span, hint)
        elif name not in facts.declared:
            yield facts.unknown(f"{title(node)} falls back on {name!r}, which is not declared", name, span)


def declared_members(facts: Facts) -> Iterator[Diagnostic]:
    """The members of a group are declared."""
    for node in facts.topology.nodes:
        for name in node.members if isinstance(node, AgentGroup) else ():
            if name not in facts.declared:
                span = node.spans.get(f"members.{name}") or node.spans.get("members") or node.span
                yield facts.unknown(f"{title(node)} has the member {name!r}, which is not declared", name, span)


def declared_places(facts: Facts) -> Iterator[Diagnostic]:
    """A gate is between declared nodes."""
    for node in facts.topology.nodes:
        if not isinstance(node, Gate):
            continue
        for where, name in (("after", node.after), ("before", node.before)):
            if name and name != UNREADABLE and name not in facts.declared and name not in facts.undeclared:
                message = f"{title(node)} comes {where} {name!r}, which is not declared"
                yield facts.unknown(message, name, node.spans.get(where) or node.span)


def declared_roles(facts: Facts) -> Iterator[Diagnostic]:
    """The role of an agent is described under `roles`."""
    roles = facts.topology.roles
    for node in facts.topology.nodes:
        if isinstance(node, Agent) and node.role not in ("", UNREADABLE, *roles):
            hint = did_you_mean(node.role, roles) or "describe it in a block roles { … }"
            message = f"{title(node)} has the role {node.role!r}, which is not described"
            span = node.spans.get("role") or node.span
            yield warning("unknown-role", message, span, hint, mended(hint, node.role, span))


def used(facts: Facts) -> Iterator[Diagnostic]:
    """If there is a flow, every declared node is in it, unless it is used elsewhere.

    Nothing is reported if the flow has undeclared names: one may be a misspelling of the node.
    """
    if facts.topology.flow is None or facts.undeclared:
        return
    unused = [node for name, node in facts.declared.items() if name not in facts.mentioned]
    if not unused:
        return
    elsewhere = {fallback_of(node) for node in facts.topology.nodes}
    for node in facts.topology.nodes:
        if isinstance(node, AgentGroup):
            elsewhere.update(node.members)
        elif isinstance(node, Orchestrator):
            elsewhere.update(node.handles)
    for node in unused:
        if node.name in elsewhere:
            continue
        if isinstance(node, Action | Human) or (isinstance(node, Agent) and not node.manual):
            is_own = isinstance(node, Agent) and node.imported is None
            hint = "write invocation: manual if this is intended" if is_own else ""
            yield warning("unused-agent", f"{title(node)} is declared but not in the flow", node.span, hint)


def fallback_of(node: AnyNode) -> str:
    """The fallback of *node*; empty if none."""
    policy = node.on_timeout if isinstance(node, Human) and node.on_fail is None else node.on_fail
    return policy.removeprefix("fallback ").strip() if policy is not None and policy.startswith("fallback ") else ""
