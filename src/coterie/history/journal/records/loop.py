"""Records of the iterations of a loop and of its waves."""

from coterie.history.journal.records.base import Record


class IterationStarted(Record, frozen=True, kw_only=True, tag="iteration.start", gc=False):
    """A loop began its *n*-th iteration, from 1, for *role*.

    *event* led there, *roles* are the suggested roles, and *allowed* has the events that they may emit.
    """

    n: int
    role: str = ""
    event: str = ""
    roles: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


class WaveStarted(Record, frozen=True, kw_only=True, tag="wave.start", gc=False):
    """The event *event* of *turn* opened the *wave*-th wave of the run: a branch for each of its *objectives*.

    *turns* are the branches' turns, each a child run.
    """

    wave: int
    turn: str
    event: str
    objectives: tuple[str, ...]
    turns: tuple[str, ...]


class WaveTimeout(Record, frozen=True, kw_only=True, tag="wave.timeout", gc=False):
    """Branches of a wave took too long; *turns* are their turns."""

    wave: int
    turns: tuple[str, ...]


class WaveJoined(Record, frozen=True, kw_only=True, tag="wave.join", gc=False):
    """All branches of a wave have ended, and the harness joins them.

    *event* routes the loop from here on; *outcomes* has the outcome of each branch's turn.
    """

    wave: int
    event: str
    outcomes: tuple[tuple[str, str], ...] = ()
