"""Records of the attempts of turns."""

from coterie.journal.records.base import NO_USAGE, Record, Usage


class AttemptLaunched(Record, frozen=True, kw_only=True, tag="attempt.launched", gc=False):
    """The attempt has a process. *started* is the kernel's start time of *pid*: it tells namesakes apart.

    An attempt that runs elsewhere has a *handle* instead, which only what started it can read. *confined*: it could not
    change the files that its team is read from.
    """

    turn: str
    attempt: int
    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""
    confined: bool = False


class AttemptAdopted(Record, frozen=True, kw_only=True, tag="attempt.adopted", gc=False):
    """The owner of *epoch* goes on with an attempt that an earlier owner started: it still runs, or has finished."""

    turn: str
    attempt: int
    epoch: int


class AttemptFailed(Record, frozen=True, kw_only=True, tag="attempt.failed", gc=False):
    """An attempt failed by itself. *kind* is one of `coterie.backends.base.FAILURES`.

    Attributes:
        wait: The provider's Retry-After in seconds, if given.
        until: When the provider's quota opens again, in Unix seconds: the turn waits until then. 0: not known, or soon.
        text: The text that the agent had written; the end of a long output. It is no answer of the turn.
        log: The end of what its program wrote to standard error.
        exit_code: The exit status of its program, as a shell counts it: 128 and the number of a signal.
        signal: The name of the signal that ended its program.
    """

    turn: str
    attempt: int
    kind: str
    reason: str
    usage: Usage = NO_USAGE
    wait: float = 0.0
    text: str = ""
    log: str = ""
    exit_code: int | None = None
    signal: str = ""
    until: float = 0.0


class AttemptSession(Record, frozen=True, kw_only=True, tag="attempt.session", gc=False):
    """An attempt works in the agent's *session*.

    *lost* is the session of an earlier attempt in which it was to go on, if it did not; *reason* says what showed it.
    """

    turn: str
    attempt: int
    session: str
    lost: str = ""
    reason: str = ""


class AttemptQuiet(Record, frozen=True, kw_only=True, tag="attempt.quiet", gc=False):
    """Signs of life that an attempt has not shown for some *seconds*, when they became more or fewer.

    *signs*: `event` (it said nothing), `cpu` (its processes computed nothing), `process` (none of them began or ended),
    `file` (no file in its working directory changed). None alone says that it is stuck; all together may.
    """

    turn: str
    attempt: int
    signs: tuple[str, ...] = ()
    seconds: float = 0.0


class AttemptMisreported(Record, frozen=True, kw_only=True, tag="attempt.misreported", gc=False):
    """An attempt reported a usage that cannot be right, as an agent may forge it; *usage* counts in its place.

    Nothing that it reports later counts.
    """

    turn: str
    attempt: int
    reason: str
    usage: Usage = NO_USAGE


OVER_BUDGET = "max_cost"
"""Why an attempt was cut off that cost more than was reserved for it and the budget allows."""
PARKED = "parked"
"""Why an attempt was cut off that needed a person whose answer did not come in time."""


class AttemptInterrupted(Record, frozen=True, kw_only=True, tag="attempt.interrupted", gc=False):
    """An attempt was cut off.

    *reason* is `crash` (its owner died), `lost` (what ran it died), `interrupted` (Ctrl-C, `control interrupt`),
    `shortage` (the machine lacked space, descriptors or memory), `parked` (no person answered in time:
    one decides whether it is tried again), `max_cost` (it passed what was reserved for it, and the budget) or `forked`
    (it belongs to the run that this one was forked from). *usage* is what it had reported by then.
    """

    turn: str
    attempt: int
    reason: str
    usage: Usage = NO_USAGE
