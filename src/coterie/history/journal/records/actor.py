"""Records of the actors and supervisors of a system. Messages between them are not recorded."""

from coterie.history.journal.records.base import Record


class ActorStarted(Record, frozen=True, kw_only=True, tag="actor.started", gc=False):
    """An incarnation of an actor or a supervisor is running: its `on_start` has returned.

    Attributes:
        name: Unique in its system.
        kind: `agent`, `supervisor`, or another kind of node, as written in the file.
        path: The names of the supervisors above it, from the root, joined with `/`; empty for the root.
        type: The class of an agent, as a dotted path.
        incarnation: 1 for the first, 2 after its first restart.
        process: The worker that it runs in; empty: the process that drives the system.
        address: Its address, if it serves HTTP.
    """

    name: str
    kind: str = "agent"
    path: str = ""
    type: str = ""
    incarnation: int = 1
    process: str = ""
    address: str = ""


class WorkerAwaited(Record, frozen=True, kw_only=True, tag="worker.awaited", gc=False):
    """No worker serves *process*, and the agents *names* wait for one."""

    process: str
    names: tuple[str, ...] = ()


class ActorStopped(Record, frozen=True, kw_only=True, tag="actor.stopped", gc=False):
    """An incarnation ended on purpose.

    Attributes:
        reason: `normal` (it ended itself), `shutdown` (its supervisor stopped it), or `killed` (it did not end in
            time).
        error: The exception of `on_stop`, in one line.
    """

    name: str
    incarnation: int = 1
    reason: str = "shutdown"
    error: str = ""


class ActorCrashed(Record, frozen=True, kw_only=True, tag="actor.crashed", gc=False):
    """An incarnation ended because of an error.

    Attributes:
        error: The class and the message of the exception, in one line.
        trace: The traceback; of a long one the end.
        during: The activity of the actor: `message`, `start`, or `task` (work beside messages); `worker`: its process
            was lost.
        message: The id of the current message, with its *type* and *sender*.
    """

    name: str
    incarnation: int = 1
    error: str = ""
    trace: str = ""
    during: str = "message"
    message: str = ""
    type: str = ""
    sender: str = ""


class RestartPlanned(Record, frozen=True, kw_only=True, tag="restart.planned", gc=False):
    """A supervisor restarts children because one of them failed.

    Attributes:
        name: The child that failed.
        names: The children that are stopped and started, in the order of their start; *name* is one of them.
        count: The number of restarts in the window, including this one, of at most *limit*.
        delay: Seconds until the start.
    """

    supervisor: str
    name: str
    names: tuple[str, ...] = ()
    count: int = 1
    limit: int = 0
    delay: float = 0.0


class SupervisorFailed(Record, frozen=True, kw_only=True, tag="supervisor.failed", gc=False):
    """A supervisor gives up: it stops its children and fails to its own supervisor.

    Attributes:
        restarts: The limit that was reached, within *window* seconds.
        child: The child whose failure exceeded the limit.
        reason: The chain of causes, one line each, the innermost last.
    """

    name: str
    child: str = ""
    restarts: int = 0
    window: float = 0.0
    reason: str = ""


class LetterDead(Record, frozen=True, kw_only=True, tag="letter.dead", gc=False):
    """A message was not handled, and its sender does not wait for an answer that would report this.

    Attributes:
        id: The id of the message.
        reason: `crashed` while handling it, `stopped`, `timeout`, `unknown` recipient, `skipped` by `on_error`, `lost`
            with its worker, `refused`, or `killed`: processes died while they handled it.
        detail: More about the reason, in one line.
        count: How many messages to the recipient this record covers; if above 1, in a burst, it describes the last one.
    """

    id: str
    recipient: str
    sender: str = ""
    type: str = ""
    reason: str = ""
    detail: str = ""
    count: int = 1
