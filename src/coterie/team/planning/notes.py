"""Report the parts of a topology that are read and kept but have no effect.

`coterie.team.formats.at.language` defines which fields have an effect; it is imported on demand, since reading a
journal needs no notation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coterie.base.diagnostics import Diagnostic, note
from coterie.team.options.backends import BACKENDS, CODING
from coterie.team.planning.plan import Plan
from coterie.team.planning.safety import FIELDS
from coterie.team.topology.block import Block
from coterie.team.topology.checks.facts import kind_of, listing, title
from coterie.team.topology.model import AnyNode, Topology

if TYPE_CHECKING:
    from coterie.team.formats.at.language import Entries, FieldSpec


def not_executed(topology: Topology, plan: Plan | None = None) -> list[Diagnostic]:
    """A note for each block, node and arrow with parts that have no effect.

    Args:
        plan: The plan, for the backends: some fields have an effect only for models.
    """
    return [
        *_in_meta(topology),
        *_in_blocks(topology, with_safety=plan is None),
        *_on_interrupt(topology),
        *_on_arrows(topology),
        *_on_nodes(topology, with_safety=plan is None),
        *(_for_models(topology, plan) if plan is not None else ()),
    ]


def sentences(topology: Topology) -> tuple[str, ...]:
    """Everything that has no effect, one sentence each."""
    unknown = [_idle([], repr(f"{kept.kind} {kept.name}".strip())) for kept in topology.kept]
    roles = topology.loop.roles if topology.loop is not None else ()
    unknown += [_idle(role.kept, f"role {role.id!r}") for role in roles if role.kept]
    return tuple(dict.fromkeys([*unknown, *(found.message for found in not_executed(topology))]))


def _in_meta(topology: Topology) -> Iterator[Diagnostic]:
    from coterie.team.formats.at.language import BLOCKS

    if names := [field.name for field in BLOCKS["meta"].fields if not field.executed and field.name in topology.meta]:
        span = topology.spans.get(f"meta.{names[0]}") or topology.spans.get("meta")
        yield note("not-executed", _idle(names, "'meta'"), span)


def _in_blocks(topology: Topology, *, with_safety: bool) -> Iterator[Diagnostic]:
    """The blocks other than nodes; unknown ones were reported by the reader, those about safety by the planner."""
    from coterie.team.formats.at.language import LANGUAGE

    for block in LANGUAGE:
        value = topology.blocks.get(block.name)
        if value is None:
            continue
        if block.executed and block.entries:
            yield from _in_entries(value.entries, block.entries[0])
            continue
        names = [*value.fields, *(entry.name for entry in value.entries)]
        if block.executed:
            names = [name for name in value.fields if not block.by_name[name].executed]
            names = [name for name in names if with_safety or name != "sandbox"]
        if names or not block.executed:
            yield note("not-executed", _idle(names, repr(block.name)), topology.spans.get(block.name))
    for kept in topology.kept:
        if kept.kind == "extensions":
            yield note("not-executed", _idle([], repr(f"extensions {kept.name}")), kept.span)


def _in_entries(entries: Sequence[Block], described: "Entries") -> Iterator[Diagnostic]:
    """Fields without effect in the entries of a block."""
    idle = {field.name for field in described.block.fields if not field.executed}
    for entry in entries:
        if names := [name for name in entry.fields if name in idle]:
            owner = f"{described.word or described.block.name} {entry.name!r}"
            yield note("not-executed", _idle(names, owner), entry.place(names[0]))


def _on_interrupt(topology: Topology) -> Iterator[Diagnostic]:
    """Only a model or a coding agent can go on where it was, and only a command can be adopted."""
    usual = topology.extension.get("backend")
    for owner, said_by in [("the topology", topology), *((title(node), node) for node in topology.nodes)]:
        policy = said_by.extension.get("on-interrupt")
        message = ""
        backend = said_by.extension.get("backend") or usual or ("command" if said_by.extension.get("command") else "")
        if policy == "resume" and backend in BACKENDS - CODING.keys() - {"model"}:
            message = f"'on-interrupt: resume' of {owner} counts as 'retry': only models and coding agents can go on"
        elif policy == "adopt" and not (said_by.extension.get("command") or topology.extension.get("command")):
            message = f"'on-interrupt: adopt' of {owner} counts as 'retry': only commands support it"
        if message:
            yield note("not-executed", message, said_by.spans.get("extension.on-interrupt") or said_by.span)


def _on_arrows(topology: Topology) -> Iterator[Diagnostic]:
    seen = set[str]()
    flow = topology.flow
    for group in flow.groups if flow is not None else ():
        for name in group.kept:
            message = f"{name!r} on {group} is kept but has no effect yet"
            if message not in seen:
                seen.add(message)
                yield note("not-executed", message, group.spans.get(name) or group.span)
    for arrow in flow.errors if flow is not None else ():
        yield note("not-executed", f"the error arrow {arrow} is kept but has no effect yet", arrow.span)


def _on_nodes(topology: Topology, *, with_safety: bool) -> Iterator[Diagnostic]:
    from coterie.team.formats.at.language import BLOCKS

    idle = {name: [field for field in block.fields if not field.executed] for name, block in BLOCKS.items()}
    for node in topology.nodes:
        names = [field.name for field in _said(node, idle[kind_of(node)])] + _in_part(node)
        if names := [name for name in names if with_safety or name != "sandbox"]:
            span = node.spans.get(names[0].partition(".")[0]) or node.span
            yield note("not-executed", _idle(names, title(node)), span)


def _said(node: AnyNode, fields: Sequence["FieldSpec"]) -> Iterator["FieldSpec"]:
    """The *fields* that *node* sets."""
    extra = getattr(node, "extra", None)
    for field in fields:
        own = getattr(node, field.name.replace("-", "_"), None)
        if own not in ("", (), None, False) or (extra is not None and field.name in extra.fields):
            yield field


def _in_part(node: AnyNode) -> list[str]:
    """Parts without effect of a field that has an effect."""
    names = [f"retry.{name}" for name in (*node.retrying.fields, *node.retrying.kept)]
    for name, value in node.kept.items():
        if name == "extensions" and isinstance(value, Mapping):
            names += [f"extensions.{key}" for key in value]
        elif name == "on-fail":
            names.append(name)
    return names


def _for_models(topology: Topology, plan: Plan) -> Iterator[Diagnostic]:
    from coterie.team.formats.at.language import BLOCKS

    fields = [field for field in BLOCKS["agent"].fields if field.model_only]
    for node in topology.nodes:
        agent = plan.agents.get(node.name)
        if agent is None or kind_of(node) != "agent" or agent.backend in ("", "model", "scripted"):
            continue
        if names := [field.name for field in _said(node, fields) if field.name not in FIELDS]:
            verb = "means" if len(names) == 1 else "mean"
            who = f"backend is {agent.backend!r}"
            message = f"{listing(names, limit=len(names))} of {title(node)} {verb} something to models, and its {who}"
            yield note("not-executed", message, node.spans.get(names[0]) or node.span)


def _idle(names: Iterable[str], owner: str) -> str:
    """A note that *names* of *owner*, or all of it, have no effect."""
    words = list(names)
    is_or_are, has = ("is", "has") if len(words) < 2 else ("are", "have")
    of = f"{listing(words, limit=len(words))} of {owner}" if words else owner
    return f"{of} {is_or_are} kept but {has} no effect yet"
