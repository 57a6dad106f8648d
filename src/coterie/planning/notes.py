"""What a topology says and coterie does not execute yet: kept, shown, and reported here."""

from collections.abc import Iterator, Mapping

from coterie.diagnostics import Diagnostic, note
from coterie.topology.checks.facts import kind_of, listing, title
from coterie.topology.model import Action, Agent, AnyNode, Gate, Orchestrator, Topology

# fmt: off
_FIELDS = {
    "agent": frozenset({
        "background", "behavior", "circuit-breaker", "compensates", "consumes", "disallowed-tools", "execution",
        "extensions", "fallback-chain", "hooks", "input-schema", "isolation", "join", "log-level", "max-tokens",
        "max-turns", "mcp-servers", "memory", "on-fail", "output-format", "output-schema", "permissions", "produces",
        "rate-limit", "retrieval", "retry", "sandbox", "scale", "seed", "skills", "skip", "stop", "temperature",
        "thinking", "thinking-budget", "top-k", "top-p", "variants",
    }),
    "orchestrator": frozenset({"delegation", "extensions", "on-fail", "retry"}),
    "action": frozenset({"extensions", "join", "on-fail", "retry"}),
    "gate": frozenset({"extensions", "retry"}),
    "human": frozenset({"extensions"}),
    "group": frozenset({"extensions", "max-rounds", "speaker-selection", "termination"}),
}
# fmt: on
"""Fields that have a meaning and no effect yet; a field that has none is reported by its reader."""
_META = ("timeout", "error-handler", "durable")
"""What `meta` may say of how the team runs; the rest of it only describes."""


def not_executed(topology: Topology) -> list[Diagnostic]:
    """A note for each thing that is said and has no effect yet; blocks kept whole are noted by the reader."""
    return [*_in_meta(topology), *_on_interrupt(topology), *_on_arrows(topology), *_on_nodes(topology)]


def sentences(topology: Topology) -> tuple[str, ...]:
    """All that has no effect yet, one sentence each."""
    blocks = [f"{f'{kept.kind} {kept.name}'.strip()!r} is kept and has no effect yet" for kept in topology.kept]
    return tuple(dict.fromkeys([*blocks, *(found.message for found in not_executed(topology))]))


def _in_meta(topology: Topology) -> Iterator[Diagnostic]:
    if names := [name for name in _META if name in topology.meta]:
        verb = "is" if len(names) == 1 else "are"
        message = f"{listing(names)} of 'meta' {verb} kept and {_has(verb)} no effect yet"
        yield note("not-executed", message, topology.spans.get("meta"))


def _on_interrupt(topology: Topology) -> Iterator[Diagnostic]:
    """No backend can take up again what a crash cut off, so `resume` and `adopt` are a wish."""
    for owner, said in [("the topology", topology), *((title(node), node) for node in topology.nodes)]:
        policy = said.extension.get("on-interrupt")
        if policy in ("resume", "adopt"):
            message = f"'on-interrupt: {policy}' of {owner} counts as 'retry': no backend can do more yet"
            yield note("not-executed", message, said.spans.get("extension.on-interrupt") or said.span)


def _on_arrows(topology: Topology) -> Iterator[Diagnostic]:
    seen = set[str]()
    for group in topology.flow.groups if topology.flow is not None else ():
        for name in group.kept:
            message = f"{name!r} on {group} is kept and has no effect yet"
            if message not in seen:
                seen.add(message)
                yield note("not-executed", message, group.spans.get(name) or group.span)


def _on_nodes(topology: Topology) -> Iterator[Diagnostic]:
    for node in topology.nodes:
        if names := [name for name in node.kept if name in _FIELDS[kind_of(node)]] + _idle(node):
            words = [word for name in names for word in _words(node, name)]
            verb = "is" if len(words) == 1 else "are"
            message = f"{listing(words, limit=len(words))} of {title(node)} {verb} kept and {_has(verb)} no effect yet"
            yield note("not-executed", message, node.spans.get(names[0]) or node.span)


def _words(node: AnyNode, name: str) -> list[str]:
    """The field *name* in words; of a block that has effect in part, what of it has none."""
    value = node.kept.get(name)
    if name in ("retry", "extensions") and isinstance(value, Mapping):
        return [f"{name}.{key}" for key in value]
    return [name]


def _idle(node: AnyNode) -> list[str]:
    """The fields of the model itself that nothing acts on."""
    match node:
        case Agent(writes=writes) if writes:
            return ["writes"]
        case Gate(checks=checks) if checks:
            return ["checks"]
        case Action(source=source) if source:
            return ["source"]
        case Orchestrator(generates=generates, handles=handles):
            return [name for name, value in (("generates", generates), ("handles", handles)) if value]
        case _:
            return []


def _has(verb: str) -> str:
    return "has" if verb == "is" else "have"
