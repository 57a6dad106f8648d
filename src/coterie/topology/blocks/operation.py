"""How a team is started, watched and kept: triggers, schedules, batches, depth, telemetry, checkpoints."""

from dataclasses import dataclass

from coterie.topology.blocks.base import Block, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Entry):
    """A command that starts the team."""

    pattern: str = ""
    argument: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Entry):
    """Something that is done again and again.

    Attributes:
        cron: When, in five fields; or else *every*, `monday 9:00`.
        agent: Who does it; or else *action*.
    """

    cron: str = ""
    every: str = ""
    agent: str = ""
    action: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalInterface(Entry):
    """A way in or out: a webhook, a channel. What the notation does not know of it is in `kept`."""

    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Entry):
    """One depth of work; its name is its number."""

    label: str = ""
    omit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth(Block):
    """How much of the team works, by how hard the task is."""

    factors: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts(Block):
    """Where the items of a batch may meet, and what then."""

    detect: tuple[str, ...] = ()
    resolve: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Block):
    """How many tasks are worked on at once."""

    parallel: bool = False
    per: str = ""
    conflicts: Conflicts | None = None
    workspace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering(Block):
    """What is counted, and where it is written."""

    track: tuple[str, ...] = ()
    per: tuple[str, ...] = ()
    output: str = "metrics/"
    format: str = "jsonl"
    pricing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture(Block):
    """What telemetry may hold."""

    prompts: bool = False
    completions: bool = False
    tool_args: bool = False
    tool_results: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans(Block):
    """What telemetry has spans for."""

    agents: bool = True
    tools: bool = True
    gates: bool = True
    memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability(Block):
    """Where telemetry goes."""

    enabled: bool = True
    level: str = "info"
    exporter: str = ""
    endpoint: str = ""
    service: str = ""
    sample_rate: float = 1.0
    capture: Capture | None = None
    traced: Spans | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Block):
    """Whether earlier states can be gone back to."""

    enabled: bool = False
    max_history: int | None = None
    branch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Block):
    """Where and when the state of a run is written.

    Attributes:
        ttl: Seconds it is kept.
    """

    backend: str = ""
    connection: str = ""
    strategy: str = ""
    ttl: float | None = None
    replay: Replay | None = None
