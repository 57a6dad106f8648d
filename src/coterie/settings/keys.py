"""Every setting there is: its type, its default, and what it does.

The sections below are the one table of them: `KEYS` follows from it, and so do the reference page, the hints on names
that are mistyped, and what `config show` prints. Durations are seconds here, whatever a file writes.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import fields


@dataclass(frozen=True, slots=True)
class Says:
    """What a setting does, in one sentence.

    Attributes:
        name: Its name in a file, where that is not the attribute's.
        unit: `duration` (`90m`, or milliseconds), `ms`, or empty.
        choices: The texts it may be; empty: any.
        least: The smallest number it may be.
        fixed: A change while a run goes on has no effect on it.
    """

    what: str
    name: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    fixed: bool = False


class EventLoopSettings(Struct, frozen=True, kw_only=True):
    """How long the loop goes on, and when it is done."""

    max_iterations: Annotated[int, Says("Iterations before the loop stops.", least=0)] = 3
    completion_event: Annotated[str, Says("The event that completes the loop, where `topology.toml` names none.")] = (
        "task.complete"
    )
    completion_promise: Annotated[
        str, Says("A text that completes the loop when the agent says it and emits nothing; empty: none.")
    ] = "LOOP_COMPLETE"
    required_events: Annotated[
        tuple[str, ...], Says("Events that must have been accepted in this run before it may complete.")
    ] = ()
    prompt: Annotated[str, Says("The objective, unless the command line gives one.")] = ""
    prompt_file: Annotated[str, Says("A file in the project that holds the objective, when `prompt` is empty.")] = ""
    max_iteration_runtime: Annotated[
        float, Says("How long an iteration may take, instead of `backend.timeout_ms`; 0: that one.", unit="duration")
    ] = 0.0
    max_runtime: Annotated[float, Says("How long the loop may take in all; 0: no limit.", unit="duration")] = 0.0
    max_cost_usd: Annotated[float, Says("US dollars the run may cost; 0: no limit.", least=0)] = 0.0
    stall_iterations: Annotated[
        int, Says("Stop after so many equal outputs in a row, none of them empty; 0: never.", least=0)
    ] = 0
    max_failures: Annotated[int, Says("Turns in a row that may fail before the run does.", least=1)] = 3


class BackendSettings(Struct, frozen=True, kw_only=True):
    """Who thinks, where no role says otherwise."""

    kind: Annotated[str, Says("The kind of backend; empty: as the command's name says.")] = ""
    provider: Annotated[str, Says("The provider whose habits an `acp` backend follows; any label is kept.")] = ""
    command: Annotated[str, Says("The program to start.")] = "claude"
    timeout: Annotated[float, Says("How long one call may take.", name="timeout_ms", unit="ms", least=1)] = 300.0
    args: Annotated[tuple[str, ...] | None, Says("Its arguments; unset: those of the provider.")] = None
    prompt_mode: Annotated[
        str, Says("How the prompt gets there; empty: as the provider wants it.", choices=("", "arg", "stdin", "acp"))
    ] = ""
    trust_all_tools: Annotated[bool, Says("Approve what the agent asks leave for.")] = True
    agent: Annotated[str, Says("The mode or agent to ask an `acp` provider for.")] = ""
    model: Annotated[str, Says("The model.")] = ""


class ReviewSettings(Struct, frozen=True, kw_only=True):
    """The review that tidies up between iterations. What is unset here is as in `backend`."""

    enabled: Annotated[bool, Says("Whether there are reviews.")] = True
    every_iterations: Annotated[
        int, Says("A review after every so many iterations; 0: as many as there are roles.", least=0)
    ] = 0
    command: Annotated[str | None, Says("The program to start.")] = None
    kind: Annotated[str | None, Says("The kind of backend.")] = None
    args: Annotated[tuple[str, ...] | None, Says("Its arguments.")] = None
    prompt_mode: Annotated[str | None, Says("How the prompt gets there.", choices=("", "arg", "stdin", "acp"))] = None
    timeout: Annotated[float, Says("How long a review may take.", name="timeout_ms", unit="ms", least=1)] = 300.0
    provider: Annotated[str | None, Says("The provider of an `acp` backend.")] = None
    trust_all_tools: Annotated[bool | None, Says("Approve what the agent asks leave for.")] = None
    agent: Annotated[str | None, Says("The mode or agent to ask an `acp` provider for.")] = None
    model: Annotated[str | None, Says("The model.")] = None
    prompt: Annotated[str, Says("What a review is asked.")] = ""
    prompt_file: Annotated[str, Says("A file in the project that says it, when `prompt` is empty.")] = "metareview.md"


class ParallelSettings(Struct, frozen=True, kw_only=True):
    """Waves: several branches of one iteration at once."""

    enabled: Annotated[bool, Says("Whether agents may open waves with `.parallel` events.")] = False
    max_branches: Annotated[int, Says("Branches a wave may have.", least=1)] = 3
    branch_timeout: Annotated[
        float, Says("How long a branch may take.", name="branch_timeout_ms", unit="ms", least=1)
    ] = 180.0


class WorktreeSettings(Struct, frozen=True, kw_only=True):
    """A git work tree of a run's own."""

    enabled: Annotated[
        bool | None,
        Says("Whether every run gets one; unset: when another run is live in the same tree.", fixed=True),
    ] = None
    branch_prefix: Annotated[str, Says("Branches are called `<prefix>/<run>`.", fixed=True)] = "autoloop"
    merge_strategy: Annotated[
        str, Says("How what it did gets back.", choices=("squash", "merge", "rebase"), fixed=True)
    ] = "squash"
    cleanup: Annotated[
        str, Says("When the tree is removed.", choices=("on_success", "always", "never"), fixed=True)
    ] = "on_success"


class IsolationSettings(Struct, frozen=True, kw_only=True):
    """Another name of `worktree`."""

    enabled: Annotated[bool | None, Says("The same as `worktree.enabled`; either switches it on.", fixed=True)] = None


class ProfilesSettings(Struct, frozen=True, kw_only=True):
    """Fragments that join the prompts of roles."""

    default: Annotated[tuple[str, ...], Says("Profiles every run has, each `repo:<name>` or `user:<name>`.")] = ()


class MemorySettings(Struct, frozen=True, kw_only=True):
    """What the agents remember."""

    prompt_budget_chars: Annotated[int, Says("Characters of memory in a prompt; 0: all of it.", least=0)] = 8000


class TasksSettings(Struct, frozen=True, kw_only=True):
    """What is left to do."""

    prompt_budget_chars: Annotated[int, Says("Characters of tasks in a prompt; 0: all of them.", least=0)] = 4000


class HarnessSettings(Struct, frozen=True, kw_only=True):
    """What every iteration is told."""

    instructions_file: Annotated[str, Says("A file in the project with standing instructions.")] = "harness.md"


class CoreSettings(Struct, frozen=True, kw_only=True):
    """Where the run keeps what it writes. Unset files lie in `state_dir`."""

    state_dir: Annotated[str, Says("The folder of everything the runs write.", fixed=True)] = ".autoloop"
    journal_file: Annotated[str, Says("A copy of the journal in lines of events.", fixed=True)] = ""
    memory_file: Annotated[str, Says("The project's memory.", fixed=True)] = ""
    tasks_file: Annotated[str, Says("The project's tasks.", fixed=True)] = ""
    events_file: Annotated[str, Says("An old name of `journal_file`.", fixed=True)] = ""
    log_level: Annotated[
        str, Says("How much is told.", choices=("debug", "info", "warn", "error", "none"), fixed=True)
    ] = "info"
    run_id_format: Annotated[str, Says("How runs are called.", choices=("human", "compact", "counter"), fixed=True)] = (
        "human"
    )


class NotifySettings(Struct, frozen=True, kw_only=True):
    """Who is told when a run ends."""

    command: Annotated[
        tuple[str, ...], Says("A program and its arguments, given what happened as JSON on standard input.")
    ] = ()


SECTIONS: dict[str, type[Struct]] = {
    "event_loop": EventLoopSettings,
    "backend": BackendSettings,
    "review": ReviewSettings,
    "parallel": ParallelSettings,
    "worktree": WorktreeSettings,
    "isolation": IsolationSettings,
    "profiles": ProfilesSettings,
    "memory": MemorySettings,
    "tasks": TasksSettings,
    "harness": HarnessSettings,
    "core": CoreSettings,
    "notify": NotifySettings,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    Attributes:
        name: As files write it: `backend.timeout_ms`.
        section: Which section of `Settings` holds it, and *attribute* as what.
        type: `text`, `whole`, `number`, `flag`, `list`, `duration` or `ms`.
        optional: It may be unset.
    """

    name: str
    section: str
    attribute: str
    type: str
    default: Any
    says: Says
    optional: bool = False


_TYPES = {str: "text", int: "whole", float: "number", bool: "flag"}


@cache
def keys() -> dict[str, Key]:
    """Every setting, by its name in a file, in the order of the page."""
    return {key.name: key for section, kind in SECTIONS.items() for key in _keys_of(section, kind)}


def _keys_of(section: str, kind: type[Struct]) -> list[Key]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        annotated, says = get_args(hints[field.name])
        members = [member for member in get_args(annotated) if member is not type(None)]
        optional = type(None) in get_args(annotated)
        plain = members[0] if optional else annotated
        type_ = says.unit or ("list" if get_origin(plain) is tuple else _TYPES[plain])
        name = f"{section}.{says.name or field.name}"
        found.append(Key(name, section, field.name, type_, field.default, says, optional))
    return found
