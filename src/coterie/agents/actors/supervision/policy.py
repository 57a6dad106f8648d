"""Decide what a supervisor does when a child has ended.

Nothing is started, stopped or awaited here, and no clock is read. As in OTP, restarts are counted per supervisor, in a
sliding window.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import dropwhile
from typing import TypeVar, assert_never

from msgspec import Struct

from coterie.agents.actors.exits import Crashed, Exit, Normal, Shutdown, Terminated
from coterie.agents.actors.supervision.spec import RestartType

T = TypeVar("T")


class _Word(Enum):
    """A keyword of a file, accepted in upper and lower case."""

    @classmethod
    def _missing_(cls, value: object) -> "_Word | None":
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


class RestartStrategy(_Word):
    """Which children are replaced together when one of them fails."""

    ONE_FOR_ONE = "ONE_FOR_ONE"
    ONE_FOR_ALL = "ONE_FOR_ALL"
    REST_FOR_ONE = "REST_FOR_ONE"

    def affected(self, failed: T, children: Iterable[T]) -> Sequence[T]:
        """The children to replace; input and result are in start order."""
        match self:
            case RestartStrategy.ONE_FOR_ONE:
                return [failed]
            case RestartStrategy.ONE_FOR_ALL:
                return list(children)
            case RestartStrategy.REST_FOR_ONE:
                return list(dropwhile(lambda child: child != failed, children))
            case _:
                assert_never(self)


class BackoffKind(_Word):
    """How the delay before a restart grows with the number of failures."""

    CONSTANT = "CONSTANT"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"


class Backoff(Struct, frozen=True, kw_only=True):
    """The delay before a restart, in seconds.

    Attributes:
        base: The delay before the first restart of a child.
        maximum: The longest delay.
        jitter: The largest share of a delay, from 0 to 1, that is added at random, up to *maximum*.
    """

    kind: BackoffKind = BackoffKind.CONSTANT
    base: float = 1.0
    maximum: float = 60.0
    jitter: float = 0.0

    def delay(self, count: int, chance: float = 0.0) -> float:
        """The delay before restart *count* of a child in the window, from 1; *chance* is a random number below 1."""
        match self.kind:
            case BackoffKind.CONSTANT:
                grown = self.base
            case BackoffKind.LINEAR:
                grown = self.base * count
            case BackoffKind.EXPONENTIAL:
                grown = self.base * 2.0 ** min(count - 1, 1000)  # 2.0 ** 1024 overflows
            case _:
                assert_never(self.kind)
        return min(grown * (1 + self.jitter * chance), self.maximum)


class RestartLimit(Struct, frozen=True, kw_only=True):
    """How many restarts a supervisor allows within a sliding window, in seconds."""

    max_restarts: int = 3
    window: float = 60.0


class RestartHistory:
    """The restarts of a supervisor's children within its window, including the window's first moment."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._restarts: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, now: float) -> None:
        """Count a restart of the child *name* at *now*, in seconds of a monotonic clock."""
        restarts, counts = self._restarts, self._counts
        restarts.append((now, name))
        counts[name] += 1
        while now - restarts[0][0] > self._window:
            _, past = restarts.popleft()
            counts[past] -= 1
            if not counts[past]:
                del counts[past]

    def __len__(self) -> int:
        return len(self._restarts)

    def count(self, name: str) -> int:
        """The number of restarts of the child *name*."""
        return self._counts[name]


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """The rules of one supervisor."""

    strategy: RestartStrategy = RestartStrategy.ONE_FOR_ONE
    limit: RestartLimit = RestartLimit()
    backoff: Backoff = Backoff()

    def delay(self, name: str, history: RestartHistory, chance: float = 0.0) -> float | None:
        """Seconds until the restart of *name*, the latest one in *history*; None: the limit is exceeded."""
        if len(history) > self.limit.max_restarts:
            return None
        return self.backoff.delay(history.count(name), chance)


def is_restarted(restart: RestartType, reason: Exit) -> bool:
    """Whether a child with this restart type is restarted after *reason*."""
    match reason:
        case Terminated():
            return False
        case Normal() | Shutdown():
            return restart == "permanent"
        case Crashed():
            return restart != "temporary"
        case _:
            assert_never(reason)
