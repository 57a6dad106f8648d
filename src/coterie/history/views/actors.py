"""The actors of a system, from the records of its run: which are running, which were restarted, and dead letters."""

from collections import Counter

from msgspec import Struct, field

from coterie.history.journal import records as r


class ActorView(Struct):
    """One actor or supervisor.

    Attributes:
        above: The name of its supervisor; empty for the root.
        state: `running`, `waiting` (for its restart), `failed` or `stopped`.
        started: When its incarnation began, in Unix seconds.
        restarts: How often it was restarted; *crashes* is how often it failed.
        letters: How many messages to it were not handled, by reason.
        reason: Why it last crashed, or why it gave up.
    """

    name: str
    kind: str
    above: str
    type: str = ""
    process: str = ""
    address: str = ""
    state: str = "running"
    started: float = 0.0
    finished: float | None = None
    restarts: int = 0
    reason: str = ""
    crashes: int = 0
    letters: Counter[str] = field(default_factory=Counter)

    def seconds(self, now: float) -> float:
        """How long this incarnation has run by *now*."""
        return max(0.0, (now if self.finished is None else self.finished) - self.started)


class ActorsView(Struct):
    """All actors of a run, in the order of their first start.

    Attributes:
        letters: How many messages to each recipient were not handled, by reason.
        awaited: The agents that wait for a worker, by its process.
    """

    by_name: dict[str, ActorView] = {}
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    awaited: dict[str, tuple[str, ...]] = {}

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        match record:
            case r.WorkerAwaited():
                self.awaited[record.process] = record.names
            case r.ActorStarted():
                self.awaited.pop(record.process, None)
                self._start(record)
            case r.ActorStopped() if (actor := self.by_name.get(record.name)) is not None:
                actor.state, actor.finished = "stopped", record.at
            case r.ActorCrashed():
                actor = self.by_name.setdefault(record.name, ActorView(record.name, "agent", ""))
                actor.state, actor.finished, actor.reason = "failed", record.at, record.error
                actor.crashes += 1
            case r.RestartPlanned():
                for name in record.names:
                    if name in self.by_name:
                        self.by_name[name].state = "waiting"
            case r.SupervisorFailed() if (actor := self.by_name.get(record.name)) is not None:
                actor.state, actor.finished = "failed", record.at
                actor.reason = f"gave up on {record.child}"
            case r.LetterDead():
                self.letters[record.recipient, record.reason] += record.count
                if (actor := self.by_name.get(record.recipient)) is not None:
                    actor.letters[record.reason] += record.count

    def _start(self, record: r.ActorStarted) -> None:
        above, earlier = record.path.rpartition("/")[2], self.by_name.get(record.name)
        fresh = ActorView(record.name, record.kind, above, record.type, record.process, record.address)
        fresh.started = record.at
        if earlier is not None:
            fresh.restarts, fresh.crashes = earlier.restarts + 1, earlier.crashes
            fresh.reason, fresh.letters = earlier.reason, earlier.letters
        self.by_name[record.name] = fresh

    def below(self, name: str) -> list[ActorView]:
        """The actors directly below the supervisor *name*; for an empty name, the root."""
        return [actor for actor in self.by_name.values() if actor.above == name]
