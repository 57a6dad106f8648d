"""Stores, skills, artifacts and schemas: named ones must be declared.

A name is checked only if the file declares others of its type; otherwise it may be defined elsewhere.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, warning
from coterie.team.topology.block import Block
from coterie.team.topology.checks.facts import Facts, listing, mended, title

_SERVED = ("falkordb", "mongodb", "neo4j", "pgvector", "pinecone", "qdrant")
"""The backends of stores that are servers."""
_SCOPES = ("user", "project", "local")
"""Values of an agent's `memory` that are not stores."""
_TYPES = ("string", "number", "integer", "boolean", "object")


def stores_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The stores and the retrieval of an agent are declared in `memory`."""
    memory = facts.topology.block("memory")
    if not memory.entries:
        return
    stores, retrievals = ({each.name for each in memory.of(kind)} for kind in ("store", "retrieval"))
    for node in facts.agents:
        for name in node.extra.get("memory", ()):
            if name not in stores and name not in _SCOPES:
                yield _unknown("store", name, title(node), stores, node.extra.place("memory", name))
        retrieval = node.extra.get("retrieval")
        if retrieval and retrieval not in retrievals:
            yield _unknown("retrieval", retrieval, title(node), retrievals, node.extra.place("retrieval"))
    yield from _declared("store", stores, "retrieval", memory.of("retrieval"), "sources")


def stores_can_work(facts: Facts) -> Iterator[Diagnostic]:
    """A semantic store has an embedding, and a store on a server has a connection."""
    for store in facts.topology.block("memory").of("store"):
        owner, backend = f"store {store.name!r}", store.get("backend")
        if store.get("type") == "semantic" and "embedding" not in store.fields:
            hint = "write embedding { provider: …  model: … }"
            message = f"{owner} is semantic, but has no embedding"
            yield warning("incomplete-store", message, store.place("type"), hint)
        if backend in _SERVED and not store.get("connection"):
            message = f"{owner} is on a {backend} server, but has no connection"
            yield warning("incomplete-store", message, store.place("backend"), 'write connection: "${STORE_URL}"')


def skills_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The skills of an agent and the tools of a skill are declared."""
    skills, tools = facts.topology.block("skill").entries, {tool.name for tool in facts.topology.block("tools").entries}
    yield from _named_by_agents(facts, "skill", {skill.name for skill in skills}, "skills")
    if tools:
        yield from _declared("tool", tools, "skill", skills, "scripts")


def artifacts_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The artifacts that agents produce and consume, and that artifacts depend on, are declared."""
    artifacts = facts.topology.block("artifacts").entries
    names = {artifact.name for artifact in artifacts}
    yield from _named_by_agents(facts, "artifact", names, "produces", "consumes")
    yield from _declared("artifact", names, "artifact", artifacts, "depends-on")


def artifacts_begin_somewhere(facts: Facts) -> Iterator[Diagnostic]:
    """No artifact depends on itself, directly or indirectly."""
    artifacts = {artifact.name: artifact for artifact in facts.topology.block("artifacts").entries}
    needs = {name: artifact.get("depends-on", ()) for name, artifact in artifacts.items()}
    while needs and (path := _circle(needs)):
        steps = " -> ".join((*path, path[0]))
        span = artifacts[path[0]].place("depends-on")
        yield warning("artifact-cycle", f"artifacts depend on each other: {steps}", span, "remove a dependency")
        needs = {name: others for name, others in needs.items() if name not in path}


def _circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """A cycle of artifacts, starting with the first declared; empty if there is none."""
    from graphlib import CycleError, TopologicalSorter  # few files have artifacts

    try:
        TopologicalSorter(needs).prepare()
    except CycleError as found:
        path: list[str] = found.args[1][:0:-1]  # the cycle lists predecessors first and repeats its first item
        start = path.index(min(path, key=list(needs).index))
        return [*path[start:], *path[:start]]
    return []


def schemas_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The type of a schema's field is a simple type or a declared schema."""
    declared = facts.topology.block("schemas").entries
    known = [*_TYPES, *dict.fromkeys(schema.name for schema in declared)]
    shapes = [(f"schema {schema.name!r}", schema.entries) for schema in declared]
    for node in facts.agents:
        for side in ("input-schema", "output-schema"):
            shapes.append((f"{side!r} of {title(node)}", node.extra.get(side, ())))
    for owner, fields in shapes:
        for field in fields:
            type = field.get("type")
            if type and type not in known:
                message = f"{field.name!r} of {owner} has the type {type!r}, which is not declared"
                hint = did_you_mean(type, known) or f"write {listing(_TYPES, 'or')}, or declare it"
                span = field.place("type")
                yield warning("unknown-schema", message, span, hint, mended(hint, type, span))


def _named_by_agents(facts: Facts, sort: str, known: Collection[str], *fields: str) -> Iterator[Diagnostic]:
    """Names in *fields* of agents that are not *known*, if any are known."""
    for node in facts.agents if known else ():
        for field in fields:
            for name in node.extra.get(field, ()):
                if name not in known:
                    yield _unknown(sort, name, title(node), known, node.extra.place(field, name))


def _declared(
    sort: str, known: Collection[str], owner: str, entries: Sequence[Block], field: str
) -> Iterator[Diagnostic]:
    """Names in *field* of *entries* that are not *known*."""
    for entry in entries:
        for name in entry.get(field, ()):
            if name not in known:
                yield _unknown(sort, name, f"{owner} {entry.name!r}", known, entry.place(field, name))


def _unknown(sort: str, name: str, owner: str, known: Collection[str], span: Span | None) -> Diagnostic:
    hint = did_you_mean(name, known) or f"declared {'is' if len(known) == 1 else 'are'} {listing(sorted(known))}"
    message = f"{owner} names the {sort} {name!r}, which is not declared"
    return warning(f"unknown-{sort}", message, span, hint, mended(hint, name, span))
