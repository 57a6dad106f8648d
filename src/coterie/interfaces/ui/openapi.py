"""The OpenAPI 3.1 document of the page's API: its requests, and the schemas of their values, from the types."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from coterie.base.version import __version__
from coterie.history.journal.records import Record
from coterie.history.views.actors import ActorView
from coterie.history.views.attention import Attention
from coterie.history.views.plan import ArrowState
from coterie.history.views.rows import CostRow, RunRow, TurnRow
from coterie.history.views.team import TeamPicture
from coterie.history.views.timeline import Line

FAILURES: Mapping[str, str] = {
    "401": "The secret of the session is missing or wrong.",
    "404": "There is no such run, turn or record.",
    "409": "The request cannot be carried out as things are.",
    "422": "The body is not what the request takes.",
    "500": "A journal cannot be read, or coterie has a defect.",
}

_RECORD = {
    "type": "object",
    "description": "A record of a journal: docs/reference/records.md has the fields of each topic.",
    "properties": {"topic": {"type": "string"}, "seq": {"type": "integer"}},
    "required": ["topic", "seq"],
}
"""msgspec describes the base of all records as a separate kind."""


class NodeRow(TypedDict):
    """A node of a plan: how often its turns started, finished and failed, and its latest turn."""

    name: str
    state: str
    starts: int
    finished: int
    failed: int
    cost: float
    turn: str
    open: list[str]


class LiveState(TypedDict):
    """A run and its child runs as tables of rows by key; `position` is the last record of each run."""

    position: dict[str, int]
    runs: dict[str, RunRow]
    teams: dict[str, TeamPicture]
    nodes: dict[str, NodeRow]
    arrows: dict[str, ArrowState]
    stages: dict[str, list[str]]
    turns: dict[str, TurnRow]
    actors: dict[str, ActorView]
    attention: dict[str, Attention]
    costs: dict[str, CostRow]


class RunList(TypedDict):
    """The runs that match a query: the number in each state, the shown rows in order, and the number of all."""

    counts: dict[str, int]
    order: list[str]
    rows: dict[str, dict[str, Any]]
    attention: list[dict[str, Any]]
    of: int


class RecordLines(TypedDict):
    """Records as sentences, the number of matching ones, and the topics of the run's records."""

    lines: list[Line]
    of: int
    topics: list[str]


class SessionCode(Struct, frozen=True):
    """The code in the address that `coterie ui` printed."""

    code: str


class StreamTopics(Struct, frozen=True):
    """For each topic of a stream (`home?QUERY`, `run/RUN`, `team`), the last id that the page has, or ""."""

    topics: dict[str, str]


class ActionPreview(TypedDict):
    """The effect that an action would have, and the equivalent command."""

    what: str
    command: str


class ApiEndpoint(Struct, frozen=True, kw_only=True):
    """A request that the server answers with JSON.

    Attributes:
        value: Creates the response.
        what: The response in one line.
        returns: The type of the response.
        takes: The type of the body of a `POST`; None: it is a `GET`.
        query: The meaning of each parameter of the query.
        required: The mandatory parameters.
        media_type: The media type of the response.
    """

    path: str
    value: Callable[..., Awaitable[Any]]
    what: str
    returns: Any = dict[str, Any]
    takes: Any = None
    query: Mapping[str, str] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    media_type: str = "application/json"

    @property
    def method(self) -> str:
        """The HTTP method of the request."""
        return "GET" if self.takes is None else "POST"


def document(endpoints: Sequence[ApiEndpoint]) -> dict[str, Any]:
    """The OpenAPI document of *endpoints*."""
    types = [one.returns for one in endpoints] + [one.takes for one in endpoints if one.takes is not None]
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=_other, ref_template="#/components/schemas/{name}"
    )
    components[Record.__name__] = _RECORD
    bodies = iter(schemas[len(endpoints) :])
    paths: dict[str, Any] = {}
    for one, answer in zip(endpoints, schemas, strict=False):
        operation: dict[str, Any] = {"summary": one.what, "parameters": _parameters(one)}
        if one.takes is not None:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": next(bodies)}}}
        if one.takes is SessionCode:
            operation["security"] = []
        failures = {status: {"description": why} for status, why in FAILURES.items()}
        said = {"description": one.what, "content": {one.media_type: {"schema": answer}}}
        operation["responses"] = {"200": said, **failures}
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "coterie ui", "version": __version__},
        "security": [{"session": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"session": {"type": "http", "scheme": "bearer"}},
        },
    }


def _parameters(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    """The parameters of the path and the query; a `POST` needs a header that no form can send."""
    found = [
        {"name": name, "in": "query", "description": what, "required": name in endpoint.required}
        for name, what in endpoint.query.items()
    ]
    if "{key}" in endpoint.path:
        found.insert(0, {"name": "key", "in": "path", "description": "A run, as `home` names it.", "required": True})
    if endpoint.takes is not None:
        found.append({"name": "x-coterie", "in": "header", "description": "`1`.", "required": True})
    return [{**one, "schema": {"type": "string"}} for one in found]


def _other(type_: type) -> dict[str, Any]:
    """The schema of a type that msgspec does not support: a table, or a type written as text."""
    return {"type": "object"} if issubclass(type_, Mapping) else {"type": "string"}
