"""What agents remember and hand on: stores, skills, artifacts and schemas that are named are declared.

A name is only doubted where the file declares others of its sort: else somebody else may know it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from coterie.diagnostics import Diagnostic, Span, did_you_mean, warning
from coterie.topology.block import Block
from coterie.topology.checks.facts import Facts, listing, mended, title

_SERVED = ("falkordb", "mongodb", "neo4j", "pgvector", "pinecone", "qdrant")
"""The backends of stores that are servers."""
_SCOPES = ("user", "project", "local")
"""What `memory` of an agent may say instead of a store."""
_TYPES = ("string", "number", "integer", "boolean", "object")


def stores_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """An agent remembers by stores, and searches by a retrieval, that `memory` declares."""
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
    """A semantic store says what makes its vectors, and a store on a server how that is reached."""
    for store in facts.topology.block("memory").of("store"):
        owner, backend = f"store {store.name!r}", store.get("backend")
        if store.get("type") == "semantic" and "embedding" not in store.fields:
            hint = "write embedding { provider: …  model: … }"
            message = f"{owner} is semantic, and nothing makes its vectors"
            yield warning("incomplete-store", message, store.place("type"), hint)
        if backend in _SERVED and not store.get("connection"):
            message = f"{owner} lies on a {backend} server, and does not say where"
            yield warning("incomplete-store", message, store.place("backend"), 'write connection: "${STORE_URL}"')


def skills_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """An agent has skills that are declared, and a skill brings tools that are."""
    skills, tools = facts.topology.block("skill").entries, {tool.name for tool in facts.topology.block("tools").entries}
    yield from _named_by_agents(facts, "skill", {skill.name for skill in skills}, "skills")
    if tools:
        yield from _declared("tool", tools, "skill", skills, "scripts")


def artifacts_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """What agents produce and consume, and what artifacts are made from, is declared."""
    artifacts = facts.topology.block("artifacts").entries
    names = {artifact.name for artifact in artifacts}
    yield from _named_by_agents(facts, "artifact", names, "produces", "consumes")
    yield from _declared("artifact", names, "artifact", artifacts, "depends-on")


def artifacts_begin_somewhere(facts: Facts) -> Iterator[Diagnostic]:
    """No artifact is made from itself, by whatever detour."""
    artifacts = {artifact.name: artifact for artifact in facts.topology.block("artifacts").entries}
    needs = {name: artifact.get("depends-on", ()) for name, artifact in artifacts.items()}
    while needs and (path := _circle(needs)):
        steps = " -> ".join((*path, path[0]))
        span = artifacts[path[0]].place("depends-on")
        yield warning("artifact-cycle", f"artifacts are made from each other: {steps}", span, "take one arrow away")
        needs = {name: others for name, others in needs.items() if name not in path}


def _circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Artifacts that are made from each other, from the first declared on; none where there is no circle."""
    from graphlib import CycleError, TopologicalSorter  # few files have artifacts

    try:
        TopologicalSorter(needs).prepare()
    except CycleError as found:
        path: list[str] = found.args[1][:0:-1]  # it names what comes before first, and its first again at the end
        start = path.index(min(path, key=list(needs).index))
        return [*path[start:], *path[:start]]
    return []


def schemas_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The type of a schema's field is one of the simple ones, or a schema that is declared."""
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
    """What agents name in *fields* and is not *known*, where anything is."""
    for node in facts.agents if known else ():
        for field in fields:
            for name in node.extra.get(field, ()):
                if name not in known:
                    yield _unknown(sort, name, title(node), known, node.extra.place(field, name))


def _declared(
    sort: str, known: Collection[str], owner: str, entries: Sequence[Block], field: str
) -> Iterator[Diagnostic]:
    """What *entries* name in *field* and is not *known*."""
    for entry in entries:
        for name in entry.get(field, ()):
            if name not in known:
                yield _unknown(sort, name, f"{owner} {entry.name!r}", known, entry.place(field, name))


def _unknown(sort: str, name: str, owner: str, known: Collection[str], span: Span | None) -> Diagnostic:
    hint = did_you_mean(name, known) or f"declared {'is' if len(known) == 1 else 'are'} {listing(sorted(known))}"
    message = f"{owner} names the {sort} {name!r}, which is not declared"
    return warning(f"unknown-{sort}", message, span, hint, mended(hint, name, span))
