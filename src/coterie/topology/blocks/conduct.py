"""How an agent answers and behaves: sampling, failing and trying again, hooks, variants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.topology.blocks.base import Block, Entry
from coterie.topology.blocks.data import SchemaField


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Block):
    """How a model answers. What is None is the model's own choice."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    thinking: str = ""
    thinking_budget: int | None = None
    output_format: str = ""
    log_level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults(Sampling):
    """What holds for every agent that says nothing else.

    Attributes:
        timeout: Seconds one attempt may take.
    """

    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Block):
    """How further attempts are spaced; how many there are says `Node.retry`.

    Attributes:
        interval: Seconds before the first.
        max_interval: Seconds at most.
        non_retryable: Failures after which there are none.
    """

    backoff: str = ""
    interval: float | None = None
    max_interval: float | None = None
    jitter: bool = False
    non_retryable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker(Block):
    """When an agent that keeps failing is left alone for a while; durations in seconds."""

    threshold: int = 1
    window: float = 60.0
    cooldown: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Block):
    """How many instances of an agent work at once."""

    mode: str = "fixed"
    by: str = "batch-count"
    min: int = 1
    max: int = 6
    batch_size: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook(Entry):
    """A command that is run when something happens.

    Attributes:
        on: The event, `AgentStop`.
        timeout: Seconds it may take.
    """

    on: str = ""
    matcher: str = ""
    run: str = ""
    type: str = "command"
    timeout: float = 600.0
    extensions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Entry):
    """Another prompt or model of an agent, drawn by its weight."""

    weight: float | None = None
    prompt: str = ""
    temperature: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct(Block):
    """How an agent works and what it may touch, beside what coterie itself decides by.

    Attributes:
        skip: The condition under which it does not run, as written.
        rate_limit: As written, `60/min`.
        memory: Names of stores.
        join: When it starts: `all`, `any`, `all-done`, `none-failed` or `2-of-3`.
    """

    permissions: str = ""
    disallowed_tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    sandbox: str = ""
    isolation: str = ""
    memory: tuple[str, ...] = ()
    retrieval: str = ""
    produces: tuple[str, ...] = ()
    consumes: tuple[str, ...] = ()
    input_schema: tuple[SchemaField, ...] = ()
    output_schema: tuple[SchemaField, ...] = ()
    skip: str = ""
    join: str = ""
    behavior: str = ""
    background: bool = False
    execution: str = ""
    max_turns: int | None = None
    fallback_chain: tuple[str, ...] = ()
    compensates: str = ""
    rate_limit: str = ""
    circuit_breaker: CircuitBreaker | None = None
    scale: Scale | None = None
    hooks: tuple[Hook, ...] = ()
    variants: tuple[Variant, ...] = ()
