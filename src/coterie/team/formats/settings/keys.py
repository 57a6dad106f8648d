"""All settings, with their types, defaults and meanings.

The sections below are the only table: `keys()`, the reference page, suggestions for mistyped names and `config show`
derive from it. Durations are in seconds here, whatever their unit in files.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct, defstruct
from msgspec.structs import fields

from coterie.team.options.agents import GATE_SANDBOXES, OPTIONS, TYPES, Scope
from coterie.team.options.protection import AsStrict, further, later, lower, same


class Meaning(Struct, frozen=True):
    """The meaning of a setting.

    Attributes:
        what: In one sentence.
        name: Its name in files, if different from the attribute.
        unit: `duration` (`90m`, or milliseconds), `ms`, or empty.
        choices: The allowed texts; empty: any.
        least: The smallest allowed number.
        fixed: Changes during a run have no effect on it.
        protects: Whether a new value is as strict as the old one; None: it shapes.
        personal: It counts only in the operator's own files.
    """

    what: str
    name: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    fixed: bool = False
    protects: AsStrict | None = None
    personal: bool = False


class EventLoopSettings(Struct, frozen=True, kw_only=True):
    """Limits and completion of the loop."""

    max_iterations: Annotated[
        int, Meaning("Maximum number of iterations.", least=0, protects=lambda old, new: new <= old)
    ] = 3
    completion_event: Annotated[str, Meaning("The event that completes the loop, unless `topology.toml` sets one.")] = (
        "task.complete"
    )
    completion_promise: Annotated[
        str,
        Meaning(
            "A text that completes the loop if the agent says it as a separate sentence, best alone on a line, and "
            "emits no event; empty: none."
        ),
    ] = "LOOP_COMPLETE"
    required_events: Annotated[
        tuple[str, ...], Meaning("Events that the run must have accepted before it can complete.")
    ] = ()
    prompt: Annotated[str, Meaning("The objective, unless given on the command line.")] = ""
    prompt_file: Annotated[str, Meaning("A file in the project with the objective, if `prompt` is empty.")] = ""
    max_iteration_runtime: Annotated[
        float, Meaning("Time limit of an iteration; 0: `backend.timeout_ms`.", unit="duration", protects=lower)
    ] = 0.0
    max_runtime: Annotated[
        float, Meaning("Time limit of the whole loop; 0: no limit.", unit="duration", protects=lower)
    ] = 0.0
    max_cost_usd: Annotated[
        float, Meaning("Cost limit of the run in US dollars; 0: no limit.", least=0, protects=lower)
    ] = 0.0
    stall_iterations: Annotated[
        int, Meaning("Stop after this many consecutive equal, non-empty outputs; 0: never.", least=0, protects=lower)
    ] = 0
    max_failures: Annotated[
        int, Meaning("Fail the run after this many consecutive failed turns.", least=1, protects=lower)
    ] = 3
    gates: Annotated[
        tuple[tuple[str, ...], ...],
        Meaning(
            'Commands that must succeed before a completion is accepted, as in `[["make", "test"]]`.', protects=further
        ),
    ] = ()
    gate_timeout: Annotated[float, Meaning("Time limit of one gate.", unit="duration", least=1, protects=lower)] = 600.0
    gate_sandbox: Annotated[
        str,
        Meaning(
            "Whether gates run in a sandbox: that of the agent whose work they check, never, or always.",
            choices=GATE_SANDBOXES,
            protects=later("off", "same", "required"),
        ),
    ] = "same"


def _of_agents(name: str, own: type[Struct], *, over: bool = False) -> Any:
    """The section *own* with the options of agents.

    Args:
        over: Its values count before those of `backend`: unset ones are None.
    """
    options = [option for option in _options(over) if option[0] not in own.__struct_fields__]
    return defstruct(name, options, bases=(own,), namespace={"__doc__": own.__doc__}, frozen=True, kw_only=True)


def _options(over: bool) -> Iterator[tuple[str, Any, Any]]:
    for name, option in OPTIONS.items():
        if not option.loop or option.scope is Scope.AGENT:
            continue
        meaning = Meaning(
            option.about,
            name=f"{option.loop}_ms" if option.unit else "",
            unit=option.unit.removeprefix("_"),
            choices=("", *option.kind.choices) if option.kind.choices else (),
            least=option.kind.least if option.unit else None,
            protects=option.protects,
        )
        default = option.default
        if option.kind.form == "text" and (option.kind.choices or default is None):
            default = ""
        type_ = next(one for one in (*get_args(TYPES[name]), TYPES[name]) if one is not type(None))
        optional = over or default is None
        yield option.loop, Annotated[type_ | None if optional else type_, meaning], None if over else default


class _Backend(Struct, frozen=True, kw_only=True):
    """The default backend of roles."""


class _Review(Struct, frozen=True, kw_only=True):
    """The review between iterations. Unset values are those of `backend`."""

    enabled: Annotated[bool, Meaning("Whether reviews run.")] = True
    every_iterations: Annotated[
        int, Meaning("Run a review after this many iterations; 0: the number of roles.", least=0)
    ] = 0
    prompt: Annotated[str, Meaning("The prompt of reviews.")] = ""
    prompt_file: Annotated[str, Meaning("A file in the project with the prompt, if `prompt` is empty.")] = (
        "metareview.md"
    )
    timeout: Annotated[
        float, Meaning("Time limit of a review.", name="timeout_ms", unit="ms", least=1, protects=lower)
    ] = 300.0


BackendSettings = _of_agents("BackendSettings", _Backend)
ReviewSettings = _of_agents("ReviewSettings", _Review, over=True)


class ParallelSettings(Struct, frozen=True, kw_only=True):
    """Waves: parallel branches of one iteration."""

    enabled: Annotated[
        bool, Meaning("Whether agents may start waves with `.parallel` events.", protects=later(True, False))
    ] = False
    max_branches: Annotated[int, Meaning("Maximum number of branches of a wave.", least=1, protects=lower)] = 3
    branch_timeout: Annotated[
        float, Meaning("Time limit of a branch.", name="branch_timeout_ms", unit="ms", least=1, protects=lower)
    ] = 180.0


class WorktreeSettings(Struct, frozen=True, kw_only=True):
    """A separate git work tree for each run."""

    enabled: Annotated[
        bool | None,
        Meaning("Whether every run gets one; unset: only if another run is active in the same tree.", fixed=True),
    ] = None
    branch_prefix: Annotated[str, Meaning("Prefix of branch names: `<prefix>/<run>`.", fixed=True)] = "autoloop"
    merge_strategy: Annotated[
        str, Meaning("How its commits are merged back.", choices=("squash", "merge", "rebase"), fixed=True)
    ] = "squash"
    cleanup: Annotated[
        str, Meaning("When the tree is removed.", choices=("on_success", "always", "never"), fixed=True)
    ] = "on_success"
    copy: Annotated[
        tuple[str, ...],
        Meaning(
            'Ignored files of your checkout that a new tree gets, as in `[".env", "node_modules"]`; patterns too.',
            fixed=True,
        ),
    ] = ()
    setup: Annotated[
        tuple[tuple[str, ...], ...],
        Meaning('Commands that prepare a new tree before the first turn, as in `[["npm", "ci"]]`.', fixed=True),
    ] = ()


class IsolationSettings(Struct, frozen=True, kw_only=True):
    """Another name for `worktree`."""

    enabled: Annotated[
        bool | None, Meaning("The same as `worktree.enabled`; either enables work trees.", fixed=True)
    ] = None


class ProfilesSettings(Struct, frozen=True, kw_only=True):
    """Fragments that are added to the prompts of roles."""

    default: Annotated[tuple[str, ...], Meaning("Profiles of every run, each `repo:<name>` or `user:<name>`.")] = ()


class MemorySettings(Struct, frozen=True, kw_only=True):
    """The memory of agents."""

    prompt_budget_chars: Annotated[int, Meaning("Maximum characters of memory in a prompt; 0: no limit.", least=0)] = (
        8000
    )


class TasksSettings(Struct, frozen=True, kw_only=True):
    """The list of tasks."""

    prompt_budget_chars: Annotated[int, Meaning("Maximum characters of tasks in a prompt; 0: no limit.", least=0)] = (
        4000
    )


class HarnessSettings(Struct, frozen=True, kw_only=True):
    """Instructions for every iteration."""

    instructions_file: Annotated[str, Meaning("A file in the project with standing instructions.")] = "harness.md"


class CoreSettings(Struct, frozen=True, kw_only=True):
    """Files that runs write. Unset files are in `state_dir`."""

    state_dir: Annotated[str, Meaning("The folder of all files that runs write.", fixed=True)] = ".autoloop"
    journal_file: Annotated[str, Meaning("A copy of the journal as lines of events.", fixed=True)] = ""
    memory_file: Annotated[str, Meaning("The project's memory.", fixed=True)] = ""
    tasks_file: Annotated[str, Meaning("The project's tasks.", fixed=True)] = ""
    events_file: Annotated[str, Meaning("An old name of `journal_file`.", fixed=True)] = ""
    log_level: Annotated[
        str,
        Meaning(
            "What `run` reports, and the log level of agents.",
            choices=("debug", "info", "warn", "error", "none"),
            fixed=True,
        ),
    ] = "info"
    run_id_format: Annotated[
        str, Meaning("Format of run ids.", choices=("human", "compact", "counter"), fixed=True)
    ] = "human"


class NotifySettings(Struct, frozen=True, kw_only=True):
    """Messages about runs that need a person or have ended. Outside of loops only your own files have them."""

    command: Annotated[
        tuple[str, ...],
        Meaning("A program and its arguments; it receives the message as JSON on standard input.", protects=same),
    ] = ()
    webhook: Annotated[
        str,
        Meaning(
            "An address to which the message is posted as JSON; `${NAME}` is a variable. Only in your own files.",
            personal=True,
        ),
    ] = ""
    desktop: Annotated[
        bool,
        Meaning("Show the message on the desktop. Only in your own files.", personal=True),
    ] = False


DEFAULT = "default"
"""The layer of values that nothing sets."""


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """Where other machines run what is submitted."""

    url: Annotated[
        str,
        Meaning(
            "The address of the cluster whose runs commands show, without a password; empty: of this machine.",
            protects=same,
        ),
    ] = ""


class Origin(Struct, frozen=True):
    """The origin of a value.

    Attributes:
        layer: `default`, `user`, `project`, `user override`, `repo override` or `command line`.
        file: Its path; empty if the value is not from a file.
        line: From 1; 0 if unknown.
    """

    layer: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f" ({self.file}{f':{self.line}' if self.line else ''})" if self.file else ""
        return self.layer + place


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a run, and their origins.

    Attributes:
        origins: By name, `event_loop.max_iterations`; defaults included.
        unknown: Unknown settings in files, by dotted name.
        grammars: The grammar of each file, by path; a reload uses the same.
    """

    event_loop: EventLoopSettings = EventLoopSettings()
    backend: Any = BackendSettings()
    review: _Review = ReviewSettings()
    parallel: ParallelSettings = ParallelSettings()
    worktree: WorktreeSettings = WorktreeSettings()
    isolation: IsolationSettings = IsolationSettings()
    profiles: ProfilesSettings = ProfilesSettings()
    memory: MemorySettings = MemorySettings()
    tasks: TasksSettings = TasksSettings()
    harness: HarnessSettings = HarnessSettings()
    core: CoreSettings = CoreSettings()
    notify: NotifySettings = NotifySettings()
    cluster: ClusterSettings = ClusterSettings()
    origins: dict[str, Origin] = {}
    unknown: dict[str, Any] = {}
    grammars: dict[str, str] = {}

    def value(self, name: str) -> Any:
        """The value of the setting *name*.

        Raises:
            KeyError: If there is none.
        """
        key = keys()[name]
        return getattr(getattr(self, key.section), key.attribute)

    def path(self, name: str) -> str:
        """The path `core.journal_file`, `memory_file` or `tasks_file`, by default in the state directory."""
        given = getattr(self.core, f"{name}_file") or (self.core.events_file if name == "journal" else "")
        return given or f"{self.core.state_dir}/{name}.jsonl"


SECTIONS = {field.name: type(field.default) for field in fields(Settings) if isinstance(field.default, Struct)}
"""The types of the sections, by name."""


class Key(Struct, frozen=True):
    """One setting.

    Attributes:
        name: Its name in files: `backend.timeout_ms`.
        section: The section of `Settings` with the *attribute*.
        type: `text`, `whole`, `number`, `flag`, `list`, `commands`, `duration` or `ms`.
        optional: Its value may be None.
    """

    name: str
    section: str
    attribute: str
    type: str
    default: Any
    meaning: Meaning
    optional: bool = False


_TYPES = {str: "text", int: "whole", float: "number", bool: "flag"}


@cache
def keys() -> dict[str, Key]:
    """All settings by their names in files, in the order of the reference page."""
    return {key.name: key for section, kind in SECTIONS.items() for key in _keys_of(section, kind)}


@cache
def protecting() -> Mapping[str, AsStrict]:
    """The settings that protect. What a plan has of an agent beyond settings, such as its environment, protects too."""
    return {name: key.meaning.protects for name, key in keys().items() if key.meaning.protects is not None}


def _keys_of(section: str, kind: type[Struct]) -> list[Key]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        annotated, meaning = get_args(hints[field.name])
        members = [member for member in get_args(annotated) if member is not type(None)]
        optional = type(None) in get_args(annotated)
        plain = members[0] if optional else annotated
        type_ = meaning.unit or _type_of(plain)
        name = f"{section}.{meaning.name or field.name}"
        found.append(Key(name, section, field.name, type_, field.default, meaning, optional))
    return found


def _type_of(annotated: Any) -> str:
    if get_origin(annotated) is not tuple:
        return _TYPES[annotated]
    return "commands" if get_origin(get_args(annotated)[0]) is tuple else "list"
