"""The registry of patterns; a pattern is a generator function, registered by `@pattern`.

@pattern("second-opinion", key="prompt")
def second_opinion(team, given):
    first = yield Question("doctor", given["prompt"])
    second = yield Question("colleague", f"A patient was told:\\n\\n{first.text}\\n\\nDo you agree?")
    return f"{first.text}\\n\\n{second.text}"
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, cast, overload

from msgspec import Struct

from coterie.base import agent_writes
from coterie.base.diagnostics import did_you_mean
from coterie.base.user_code import contained
from coterie.errors import CodeMissing, UsageError
from coterie.history.engines.questions import Conversation
from coterie.history.engines.versions import EngineRules
from coterie.team.topology.patterns.configs import Config
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec
from coterie.team.topology.typed.program import TypedProgram


class Team:
    """The slots of a pattern, as its generator sees them.

    Args:
        slots: Their names, in declared order.
        config: The configuration, typed.
        capabilities: The capabilities of each slot.
        keys: The input keys in which the teams at slots expect their task; slots of agents are omitted.
        subs: The teams at slots, as their own patterns see them, if they are patterns.

    Attributes:
        failed: The number of failed attempts of each slot so far, counted by the engine.
        rules: Those of the version of the engine that began the run.
    """

    __slots__ = ("_capabilities", "_keys", "config", "failed", "rules", "slots", "subs")

    def __init__(
        self,
        slots: Sequence[str],
        config: Any,
        *,
        capabilities: Mapping[str, Sequence[str]] | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        subs: Mapping[str, "Team"] | None = None,
    ) -> None:
        self.slots, self.config = tuple(slots), config
        self._capabilities, self._keys, self.subs = capabilities or {}, keys or {}, dict(subs or {})
        self.failed: dict[str, int] = {}
        self.rules = EngineRules()

    def capabilities(self, slot: str) -> tuple[str, ...]:
        """The capabilities of *slot*."""
        return tuple(self._capabilities.get(slot, ()))

    def keys(self, slot: str) -> tuple[str, ...]:
        """The input keys in which *slot* expects its task, the usual one first."""
        return tuple(self._keys.get(slot, ("prompt",)))


class Calls(Struct, frozen=True):
    """The number of turns of each slot.

    Attributes:
        usual: The number without failures and early ends.
        most: The maximum. Retries are attempts of a turn, not turns. Where a slot has a fallback, each of these turns
            may fail and be followed by one of the fallback, as `topology check` counts.
        numbers: Known numbers of the runs of a team at a slot, for its own `calls`.
    """

    usual: dict[str, int]
    most: dict[str, int]
    numbers: dict[str, dict[str, Any]] = {}


PatternFunction = Callable[[Team, dict[str, Any]], Conversation]
"""A pattern: a generator of questions, given its team and the run's input."""


CallCounter = Callable[..., Calls]
"""Counts the turns of each slot from the team and, if necessary, from numbers of a run given by name."""


class PatternDefinition(Struct, frozen=True):
    """A registered pattern.

    Attributes:
        calls: Counts its turns; None: unknown.
        program: The program that it is, if it is one.
    """

    kind: PatternSpec
    play: PatternFunction
    calls: CallCounter | None = None
    program: TypedProgram[Any] | None = None


_REGISTERED: dict[str, PatternDefinition] = {}

P = TypeVar("P", bound=Callable[..., Conversation])


@overload
def pattern(kind: PatternSpec, *, calls: CallCounter | None = None) -> Callable[[P], P]: ...
@overload
def pattern(
    kind: str, *, key: str = "prompt", config: type[Config] = Config, calls: CallCounter | None = None
) -> Callable[[P], P]: ...
def pattern(
    kind: PatternSpec | str, *, key: str = "prompt", config: type[Config] = Config, calls: CallCounter | None = None
) -> Callable[[P], P]:
    """Register a generator function as a pattern.

    Args:
        kind: Its name; the names of the built-in patterns are reserved.
        key: The input key of its task; empty: it accepts any input.
        config: The class of its configuration, a `Config`.
        calls: Counts its turns, for `topology check`.

    Raises:
        UsageError: If another function has that name.
    """
    made = (
        kind
        if isinstance(kind, PatternSpec)
        else PatternSpec(name=kind, title=kind, config=config, keys=(key,) if key else ())
    )

    def register(play: P) -> P:
        if isinstance(kind, str) and kind in KINDS:
            raise UsageError(f"the pattern name {kind!r} is reserved: choose another name")
        known = _REGISTERED.get(made.name)
        if known is not None and _place(known.play) != _place(play) and not _same_file(known.play, play):
            raise UsageError(f"two functions are pattern {made.name!r}: {_place(known.play)} and {_place(play)}")
        _REGISTERED[made.name] = PatternDefinition(made, play, calls)
        play.pattern = made.name  # type: ignore[attr-defined]
        return play

    return register


def definition(type: str) -> PatternDefinition:
    """The pattern of *type*: a built-in name, a name registered here, or `module:function`.

    Raises:
        UsageError: If it is unknown.
    """
    if type in KINDS:
        KINDS[type]  # its module registers it
    if type in _REGISTERED:
        return _REGISTERED[type]
    if ":" in type:
        return _imported(type)
    known = (*KINDS, *_REGISTERED)
    hint = did_you_mean(type, known) or f"known patterns: {', '.join(dict.fromkeys(known))}"
    raise UsageError(f"unknown pattern {type!r}; {hint}")


def add_program(path: str, program: TypedProgram[Any]) -> None:
    """Make *program* known under *path*, `module:function`."""

    class Arguments(Config, frozen=True, kw_only=True):
        def input_faults(
            self, title: str, keys: Sequence[str], capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
        ) -> Iterator[Fault]:
            """The arguments that the input lacks, or that have another type."""
            try:
                program.arguments(given)
            except ValueError as error:
                yield Fault("missing-input", str(error))

    def play(team: Team, given: dict[str, Any]) -> Conversation:
        return cast(Conversation, program.begin(program.arguments(given)))

    spec = PatternSpec(name=program.name, title=program.name, config=Arguments)
    _REGISTERED[path] = PatternDefinition(spec, play, program=program)


def type_of(play: Callable[..., Any]) -> str:
    """The type of a registered function in a plan, by which a resume finds it again.

    Raises:
        UsageError: If it is not registered.
    """
    name = getattr(play, "pattern", "")
    if name not in _REGISTERED:
        raise UsageError(f"{_place(play)} is not a pattern: decorate it with @pattern(name)")
    return name if name in KINDS else _place(play)


def _imported(type: str) -> PatternDefinition:
    agent_writes.guard_imports()
    module, _, function = type.partition(":")
    try:
        with contained():
            found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise CodeMissing(f"the pattern {type!r} cannot be loaded: {error}") from error
    except Exception as error:  # its module is a user's own
        what = f"{module} raised {error.__class__.__name__}: {error}"
        raise UsageError(f"the pattern {type!r} cannot be loaded: {what}") from error
    if isinstance(found, TypedProgram):
        return _REGISTERED[found.path]
    name = getattr(found, "pattern", "")
    if name not in _REGISTERED:
        raise UsageError(f"{type!r} is not a pattern: decorate it with @pattern(name), or with @program")
    return _REGISTERED[name]


def _same_file(play: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether both are one function: that of the file that is run, and that of the same file imported by its name."""
    one, two = play.__code__, other.__code__
    mains = "__main__" in (play.__module__, other.__module__)
    return mains and (one.co_filename, one.co_firstlineno) == (two.co_filename, two.co_firstlineno)


def _place(play: Callable[..., Any]) -> str:
    return f"{play.__module__}:{play.__qualname__}"
