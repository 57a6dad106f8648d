"""Records of the attempts of turns."""

from coterie.history.journal.records.base import NO_USAGE, Record, Usage


class AttemptLaunched(Record, frozen=True, kw_only=True, tag="attempt.launched", gc=False):
    """The attempt has a process. *started* is the system's start time of *pid*, which identifies a reused pid.

    An attempt that runs elsewhere has a *handle* instead, which only its backend can read. *confined*: it could not
    change the files of its team.
    """

    turn: str
    attempt: int
    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""
    confined: bool = False


class AttemptAdopted(Record, frozen=True, kw_only=True, tag="attempt.adopted", gc=False):
    """The owner of *epoch* continues an attempt that an earlier owner started: it still runs, or has finished."""

    turn: str
    attempt: int
    epoch: int


class AttemptFailed(Record, frozen=True, kw_only=True, tag="attempt.failed", gc=False):
    """An attempt failed by itself.

    | kind | meaning |
    |---|---|
    | `exit` | A command ended with a status other than 0. |
    | `timeout` | It took longer than its timeout. |
    | `rate_limited` | The provider refused the request for now; it is retried after a delay. |
    | `transient` | The provider or the connection failed; it is retried after a delay. |
    | `quota` | The quota of the provider is used up. |
    | `auth` | The provider accepts no login or key. |
    | `refused` | The provider refused to answer. |
    | `not_found` | The command does not exist or may not be run. |
    | `invalid_output` | A declared output is missing or invalid. |
    | `crashed` | The backend or the agent's code raised an exception. |
    | `lost` | The node that ran it was lost; it counts as an interruption. |
    | `failed` | A child run failed, or any other failure. |

    Attributes:
        wait: The provider's Retry-After in seconds, if given.
        until: When the provider's quota opens again, in Unix seconds: the turn waits until then. 0: not known, or soon.
        text: The text that the agent had written; of a long one the end. It does not count as an answer.
        log: The end of its program's standard error.
        exit_code: The exit status of its program, as in a shell: 128 plus the number of a signal.
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

    *lost* is the session of an earlier attempt that it should have continued but did not; *reason* is the evidence.
    """

    turn: str
    attempt: int
    session: str
    lost: str = ""
    reason: str = ""


class AttemptStep(Record, frozen=True, kw_only=True, tag="attempt.step", gc=False):
    """A model answered a request of an attempt.

    Attributes:
        n: The number of the request in its turn, from 1; the attempts of a turn share the count.
        kind: `request`.
        usage: What this request used; it counts until the attempt has ended, whose usage includes it.
        calls: The names of the tools that the answer calls.
        hash: SHA-256 of the answer as it was kept for a later attempt, in hex; empty: it was not complete, or not kept.
    """

    turn: str
    attempt: int
    n: int
    kind: str = "request"
    usage: Usage = NO_USAGE
    calls: tuple[str, ...] = ()
    hash: str = ""


class AttemptQuiet(Record, frozen=True, kw_only=True, tag="attempt.quiet", gc=False):
    """The set of signs of life that an attempt has not shown for some *seconds* has changed.

    *signs*: `event` (no output), `cpu` (its processes were idle), `process` (none of them began or ended), `file` (no
    file in its working directory changed). One alone does not mean that it is stuck; all together may.
    """

    turn: str
    attempt: int
    signs: tuple[str, ...] = ()
    seconds: float = 0.0


class AttemptMisreported(Record, frozen=True, kw_only=True, tag="attempt.misreported", gc=False):
    """An attempt reported an implausible usage, which an agent may have forged; *usage* counts instead.

    Later reports of the attempt are ignored.
    """

    turn: str
    attempt: int
    reason: str
    usage: Usage = NO_USAGE


OVER_BUDGET = "max_cost"
"""The reason of an attempt that was cut off because it exceeded its reservation and the budget."""
PARKED = "parked"
"""The reason of an attempt that was cut off because no person answered in time."""


class AttemptInterrupted(Record, frozen=True, kw_only=True, tag="attempt.interrupted", gc=False):
    """An attempt was cut off.

    *reason* is `crash` (its owner died), `lost` (the node that ran it was lost), `interrupted` (Ctrl-C, `control
    interrupt`), `shortage` (the machine lacked space, descriptors or memory), `parked` (no person answered in time; a
    person decides whether it is retried), `max_cost` (it exceeded its reservation and the budget) or `forked` (it
    belongs to the run that this one was forked from). *usage* is its reported usage. *abandoned*: its code did not end
    when it was cancelled, and was left behind.
    """

    turn: str
    attempt: int
    reason: str
    usage: Usage = NO_USAGE
    abandoned: bool = False
