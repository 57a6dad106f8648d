"""Which patterns there are, and how one is made: a function that is a generator, registered by `@pattern`.

@pattern("second-opinion", key="prompt")
def second_opinion(team, given):
    first = yield Question("doctor", given["prompt"])
    second = yield Question("colleague", f"A patient was told:\\n\\n{first.text}\\n\\nDo you agree?")
    return f"{first.text}\\n\\n{second.text}"
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar, overload

from msgspec import Struct

from coterie.diagnostics import did_you_mean
from coterie.engines.generator import Conversation
from coterie.errors import UsageError
from coterie.topology.patterns.configs import Config
from coterie.topology.patterns.faults import Fault
from coterie.topology.patterns.kinds import KINDS, Kind


class Team:
    """The slots of a pattern, as its generator sees them.

    Args:
        slots: Their names, in the order declared.
        config: The configuration, typed.
        capabilities: What each can do.
        keys: Where the task stands in the input of the team that fills a slot; slots of agents are left out.
        subs: The teams that answer at slots, as their own patterns see them, where they are patterns.

    Attributes:
        failed: How many attempts at a slot have failed so far; the engine counts.
    """

    __slots__ = ("_capabilities", "_keys", "config", "failed", "slots", "subs")

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

    def capabilities(self, slot: str) -> tuple[str, ...]:
        """What whoever fills *slot* can do."""
        return tuple(self._capabilities.get(slot, ()))

    def keys(self, slot: str) -> tuple[str, ...]:
        """Where the task stands in the input of whoever fills *slot*, the usual place first."""
        return tuple(self._keys.get(slot, ("prompt",)))


class Calls(Struct, frozen=True):
    """How many turns each slot has, by its name.

    Attributes:
        usual: When nothing fails and nothing ends early.
        most: At most, whatever happens. Retries are attempts of a turn, not turns; of a slot that somebody stands in
            for, each of these turns may fail and be followed by one of that agent, as `topology check` counts.
    """

    usual: dict[str, int]
    most: dict[str, int]


class PatternFunction(Protocol):
    """A pattern: a generator of questions, given its team and the run's input."""

    def __call__(self, team: Team, given: dict[str, Any], /) -> Conversation:
        """What to ask, given the run's input."""


class CallCounter(Protocol):
    """How many turns a pattern has, from its configuration and, where that does not say, the *numbers* of a run."""

    def __call__(self, team: Team, **numbers: Any) -> Calls:
        """The turns of each slot."""


class NoConfig(Config, frozen=True, kw_only=True):
    """Nothing to configure."""


class PatternDefinition(Struct, frozen=True):
    """A registered pattern.

    Attributes:
        calls: None: nobody says how many turns it has.
    """

    kind: Kind
    play: PatternFunction
    calls: CallCounter | None = None


_REGISTERED: dict[str, PatternDefinition] = {}

P = TypeVar("P", bound=Callable[..., Conversation])


@overload
def pattern(kind: Kind, *, calls: CallCounter | None = None) -> Callable[[P], P]: ...
@overload
def pattern(
    kind: str, *, key: str = "prompt", config: type[Config] = NoConfig, calls: CallCounter | None = None
) -> Callable[[P], P]: ...
def pattern(
    kind: Kind | str, *, key: str = "prompt", config: type[Config] = NoConfig, calls: CallCounter | None = None
) -> Callable[[P], P]:
    """Register a generator function as a pattern.

    Args:
        kind: Its name; one of ours only for ours.
        key: Where its task stands in what it is given; empty: it takes whatever comes.
        config: The class of its configuration, a `Config`.
        calls: Says how many turns it has, for `topology check`.

    Raises:
        UsageError: If another function has that name already.
    """
    made = (
        kind
        if isinstance(kind, Kind)
        else Kind(name=kind, title=kind, config=config, keys=(key,) if key else (), rules=_any_slots)
    )

    def register(play: P) -> P:
        if isinstance(kind, str) and kind in KINDS:
            raise UsageError(f"there is a pattern {kind!r} already: give yours another name")
        known = _REGISTERED.get(made.name)
        if known is not None and _place(known.play) != _place(play):
            raise UsageError(f"two functions are pattern {made.name!r}: {_place(known.play)} and {_place(play)}")
        _REGISTERED[made.name] = PatternDefinition(made, play, calls)
        play.pattern = made.name  # type: ignore[attr-defined]
        return play

    return register


def definition(type: str) -> PatternDefinition:
    """The pattern of *type*: the name of one of ours, of one registered here, or `module:function`.

    Raises:
        UsageError: If there is none.
    """
    if type in KINDS and type not in _REGISTERED:
        import_module(f"coterie.engines.patterns.{type}")
    if type in _REGISTERED:
        return _REGISTERED[type]
    if ":" in type:
        return _imported(type)
    known = (*KINDS, *_REGISTERED)
    hint = did_you_mean(type, known) or f"there are {', '.join(dict.fromkeys(known))}"
    raise UsageError(f"there is no pattern {type!r}; {hint}")


def type_of(play: Callable[..., Any]) -> str:
    """What a plan calls a registered function, so that it is found again when the run is resumed.

    Raises:
        UsageError: If it is not registered.
    """
    name = getattr(play, "pattern", "")
    if name not in _REGISTERED:
        raise UsageError(f"{_place(play)} is no pattern: put @pattern(name) in front of it")
    return name if name in KINDS else _place(play)


def _imported(type: str) -> PatternDefinition:
    module, _, function = type.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the pattern {type!r} cannot be loaded: {error}") from error
    except Exception as error:  # its module is a user's own
        what = f"{module} raised {error.__class__.__name__}: {error}"
        raise UsageError(f"the pattern {type!r} cannot be loaded: {what}") from error
    name = getattr(found, "pattern", "")
    if name not in _REGISTERED:
        raise UsageError(f"{type!r} is no pattern: put @pattern(name) in front of it")
    return _REGISTERED[name]


def _place(play: Callable[..., Any]) -> str:
    return f"{play.__module__}:{play.__qualname__}"


def _any_slots(config: Config, names: Sequence[str]) -> Iterator[Fault]:
    yield from ()
