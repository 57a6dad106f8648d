"""What agents remember and hand on: stores, skills, artifacts and schemas that are named are declared.

A name is only doubted where the file declares others of its sort: else somebody else may know it.
"""

from collections.abc import Collection, Iterator

from coterie.diagnostics import Diagnostic, Span, did_you_mean, warning
from coterie.topology.checks.facts import Facts, listing, mended, title

_SERVED = ("falkordb", "mongodb", "neo4j", "pgvector", "pinecone", "qdrant")
"""The backends of stores that are servers."""
_SCOPES = ("user", "project", "local")
"""What `memory` of an agent may say instead of a store."""
_TYPES = ("string", "number", "integer", "boolean", "object", "enum")


def stores_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """An agent remembers by stores, and searches by a retrieval, that `memory` declares."""
    memory = facts.topology.memory
    if memory is None or not (memory.stores or memory.retrievals):
        return
    stores, retrievals = {store.name for store in memory.stores}, {each.name for each in memory.retrievals}
    for node in facts.agents:
        conduct = node.conduct
        if conduct is None:
            continue
        for name in conduct.memory:
            if name not in stores and name not in _SCOPES:
                yield _unknown("store", name, title(node), stores, conduct.place("memory", name))
        if conduct.retrieval and conduct.retrieval not in retrievals:
            yield _unknown("retrieval", conduct.retrieval, title(node), retrievals, conduct.place("retrieval"))
    for retrieval in memory.retrievals:
        for name in retrieval.sources:
            if name not in stores:
                yield _unknown("store", name, f"retrieval {retrieval.name!r}", stores, retrieval.place("sources", name))


def stores_can_work(facts: Facts) -> Iterator[Diagnostic]:
    """A semantic store says what makes its vectors, and a store on a server how that is reached."""
    memory = facts.topology.memory
    for store in memory.stores if memory is not None else ():
        owner = f"store {store.name!r}"
        if store.type == "semantic" and store.embedding is None:
            hint = "write embedding { provider: …  model: … }"
            message = f"{owner} is semantic, and nothing makes its vectors"
            yield warning("incomplete-store", message, store.place("type"), hint)
        if store.backend in _SERVED and not store.connection:
            message = f"{owner} lies on a {store.backend} server, and does not say where"
            yield warning("incomplete-store", message, store.place("backend"), 'write connection: "${STORE_URL}"')


def skills_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """An agent has skills that are declared, and a skill brings tools that are."""
    skills = {skill.name for skill in facts.topology.skills}
    for node in facts.agents if skills else ():
        for name in node.conduct.skills if node.conduct is not None else ():
            if node.conduct is not None and name not in skills:
                yield _unknown("skill", name, title(node), skills, node.conduct.place("skills", name))
    tools = {tool.name for tool in facts.topology.tools}
    for skill in facts.topology.skills if tools else ():
        for name in skill.scripts:
            if name not in tools:
                yield _unknown("tool", name, f"skill {skill.name!r}", tools, skill.place("scripts", name))


def artifacts_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """What agents produce and consume, and what artifacts are made from, is declared."""
    artifacts = {artifact.name for artifact in facts.topology.artifacts}
    if not artifacts:
        return
    for node in facts.agents:
        for field in ("produces", "consumes") if node.conduct is not None else ():
            for name in getattr(node.conduct, field):
                if node.conduct is not None and name not in artifacts:
                    yield _unknown("artifact", name, title(node), artifacts, node.conduct.place(field, name))
    for artifact in facts.topology.artifacts:
        for name in artifact.depends_on:
            if name not in artifacts:
                owner = f"artifact {artifact.name!r}"
                yield _unknown("artifact", name, owner, artifacts, artifact.place("depends-on", name))


def artifacts_begin_somewhere(facts: Facts) -> Iterator[Diagnostic]:
    """No artifact is made from itself, by whatever detour."""
    needs = {artifact.name: artifact.depends_on for artifact in facts.topology.artifacts}
    done = set[str]()
    for artifact in facts.topology.artifacts:
        path = _circle(artifact.name, needs, done)
        if path:
            steps = " -> ".join((*path, path[0]))
            span = artifact.place("depends-on")
            yield warning("artifact-cycle", f"artifacts are made from each other: {steps}", span, "take one arrow away")


def _circle(start: str, needs: dict[str, tuple[str, ...]], done: set[str]) -> list[str]:
    """The artifacts on a circle that *start* leads to; what was looked at before is in *done*."""
    path: dict[str, None] = {}
    ways: list[Iterator[str]] = [iter((start,))]
    while ways:
        name = next(ways[-1], None)
        if name is None:
            ways.pop()
            if path:
                done.add(path.popitem()[0])
        elif name in path:
            done.update(path)
            steps = list(path)
            return steps[steps.index(name) :]
        elif name in needs and name not in done:
            path[name] = None
            ways.append(iter(needs[name]))
    return []


def schemas_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """The type of a schema's field is one of the simple ones, or a schema that is declared."""
    schemas = {schema.name for schema in facts.topology.schemas}
    shapes = [(f"schema {schema.name!r}", schema.fields) for schema in facts.topology.schemas]
    for node in facts.agents:
        if node.conduct is not None:
            shapes.append((f"'input-schema' of {title(node)}", node.conduct.input_schema))
            shapes.append((f"'output-schema' of {title(node)}", node.conduct.output_schema))
    for owner, fields in shapes:
        for field in fields:
            if field.type not in _TYPES and field.type not in schemas:
                known = [*_TYPES[:-1], *schemas]
                message = f"{field.name!r} of {owner} has the type {field.type!r}, which is not declared"
                hint = did_you_mean(field.type, known) or f"write {listing(_TYPES[:-1], 'or')}, or declare it"
                span = field.place("type")
                yield warning("unknown-schema", message, span, hint, mended(hint, field.type, span))


def _unknown(sort: str, name: str, owner: str, known: Collection[str], span: Span | None) -> Diagnostic:
    hint = did_you_mean(name, known) or f"declared {'is' if len(known) == 1 else 'are'} {listing(sorted(known))}"
    message = f"{owner} names the {sort} {name!r}, which is not declared"
    return warning(f"unknown-{sort}", message, span, hint, mended(hint, name, span))
