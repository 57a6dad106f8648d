"""Records of the attempts of turns."""

from coterie.journal.records.base import NO_USAGE, Record, Usage


class AttemptLaunched(Record, frozen=True, kw_only=True, tag="attempt.launched", gc=False):
    """The attempt has a process. *started* is the kernel's start time of *pid*: it tells namesakes apart.

    An attempt that runs elsewhere has a *handle* instead, which only what started it can read.
    """

    turn: str
    attempt: int
    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""


class AttemptAdopted(Record, frozen=True, kw_only=True, tag="attempt.adopted", gc=False):
    """The owner of *epoch* goes on with an attempt that an earlier owner started: it still runs, or has finished."""

    turn: str
    attempt: int
    epoch: int


class AttemptFailed(Record, frozen=True, kw_only=True, tag="attempt.failed", gc=False):
    """An attempt failed by itself. *kind* is one of `coterie.backends.base.FAILURES`.

    Attributes:
        wait: The provider's Retry-After in seconds, if given.
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


class AttemptInterrupted(Record, frozen=True, kw_only=True, tag="attempt.interrupted", gc=False):
    """An attempt was cut off.

    *reason* is `crash` (its owner died), `lost` (what ran it died), `interrupted` (Ctrl-C, `control interrupt`),
    `shortage` (the machine lacked space, descriptors or memory) or `forked` (it belongs to the run that this one was
    forked from).
    """

    turn: str
    attempt: int
    reason: str
