"""What a team remembers: its folders, its stores, and how they are searched."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.topology.blocks.base import Block, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Domains(Block):
    """Knowledge that the team shares."""

    path: str = ""
    routing: str = ""
    index: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class References(Block):
    """Documents that do not change."""

    path: str = ""
    blueprints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalDocs(Block):
    """Documents that are loaded when they are needed."""

    path: str = ""
    files: tuple[str, ...] = ()
    load_when: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFile(Block):
    """A log of what was done."""

    path: str = ""
    mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace(Block):
    """The folder of one run."""

    path: str = ""
    protocol: str = ""
    structure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Block):
    """What makes vectors of texts."""

    provider: str = ""
    model: str = ""
    dimensions: int | None = None
    endpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Block):
    """Where vectors lie, and how they are compared."""

    collection: str = ""
    metric: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion(Block):
    """What is read into a store, and in which pieces."""

    sources: tuple[str, ...] = ()
    chunking: str = ""
    chunk_size: int | None = None
    overlap: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Block):
    """How a store is searched."""

    strategy: str = ""
    rerank: bool = False
    top_k: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle(Block):
    """How long a store keeps what it holds; durations as written."""

    retention: str = ""
    decay_half_life: str = ""
    consolidation: float | None = None
    contradiction: str = ""
    audit_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Entry):
    """A place where agents remember."""

    type: str = ""
    description: str = ""
    scope: str = ""
    isolation: str = ""
    backend: str = ""
    path: str = ""
    connection: str = ""
    extraction: str = ""
    embedding: Embedding | None = None
    index: Index | None = None
    ingestion: Ingestion | None = None
    search: Search | None = None
    lifecycle: Lifecycle | None = None
    backend_config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval(Entry):
    """How agents find what is remembered.

    Attributes:
        sources: Names of stores.
        budget: Tokens at most.
        scoring: `recency-weight` and the like, by name.
    """

    sources: tuple[str, ...] = ()
    budget: int | None = None
    paths: tuple[str, ...] = ()
    rerank: bool = False
    diversity: bool = False
    cache_hit_threshold: float | None = None
    cache_hit_action: str = ""
    scoring: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Block):
    """All that a team remembers."""

    domains: Domains | None = None
    references: References | None = None
    external_docs: ExternalDocs | None = None
    metrics: MetricsFile | None = None
    workspace: Workspace | None = None
    stores: tuple[Store, ...] = ()
    retrievals: tuple[Retrieval, ...] = ()
