"""A run of a loop in the journal lines of the earlier system, `loop.start`, `iteration.start`, `backend.finish` ….

Tools that read that system's journal can read a run of Coterie. The lines depend only on the records, so they can be
made again at any time; Coterie never reads them. If that system has no topic for an event (such as a plan that was read
again), the record's own topic is used.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from coterie.base.ids import child_run_id
from coterie.history.journal import records as r
from coterie.history.journal.owned import OwnedTime
from coterie.history.views.projected_lines import iso, line_of, milliseconds, wave_id
from coterie.team.planning.loop import GLOBAL, REVIEW, LoopPlan
from coterie.team.planning.plan import AgentPlan, from_json
from coterie.team.topology.events import allowed, suggested

Prompts = Callable[[str, int], str]
"""Returns the prompt of an attempt, `prompts(turn, attempt)`; empty if it is not stored."""

EndOf = Callable[[str], str]
"""Returns the reason for the end of a child run; empty if it is unknown."""

TRANSIENT = frozenset({"rate_limited", "transient"})
TAIL = 2_000
"""How many characters of an output a line about a failure shows."""
JOINED = ".joined"
STOP_REASONS = {
    "timeout": "backend_timeout",
    "auth": "auth_failed",
    "quota": "quota_exhausted",
    "rate_limited": "rate_limited",
    "transient": "transient_error",
    "cancelled": "interrupted",
}
"""The reason for each kind of failure that ends a loop or a branch; `backend_failed` for all others."""


class _Turn(Struct):
    """A turn that runs: its agent, which iteration it is or comes before, when it began."""

    agent: str
    iteration: int
    began: float
    attempt: int = 1
    failed: r.AttemptFailed | None = None
    """The failure of its last attempt, if that failed."""

    @property
    def end(self) -> tuple[str, str]:
        """The exit code of its last attempt, if that failed, and its output, or else the reason of the failure."""
        failed = self.failed
        if failed is None:
            return "1", ""
        code = failed.exit_code if failed.exit_code is not None else 1
        between = "\n" if failed.log and failed.text and not failed.text.endswith("\n") else ""
        return str(code), failed.text + between + failed.log or failed.reason


class _Wave(Struct):
    """A wave that is open, and when it was opened."""

    started: r.WaveStarted
    position: r.IterationStarted
    began: float
    reasons: dict[str, str] = {}
    """Why each branch ended, by its turn."""


class LoopProjection:
    """Converts a run to such lines: feed it the run's records in order.

        projection = LoopProjection()
        lines = [line for record in store.read(run) for line in projection.apply(record)]

    Args:
        prompts: Returns the prompt of an attempt.
        end_of: Returns the reason for the end of a branch.
    """

    def __init__(self, prompts: Prompts = lambda turn, attempt: "", end_of: EndOf = lambda run: "") -> None:
        self._prompts, self._end_of = prompts, end_of
        self._run = ""
        self._plan = LoopPlan()
        self._agents: dict[str, AgentPlan] = {}
        self._at = 0.0
        self._position = r.IterationStarted(n=0)
        self._turns: dict[str, _Turn] = {}
        self._wave: _Wave | None = None
        self._joined: _Wave | None = None
        """The last joined wave."""
        self._pauses = self._added = 0
        self._rejected = ""
        self._stopped = ""
        self._cost, self._time = 0.0, OwnedTime()
        self._handlers: dict[type, Callable[[Any], Iterator[dict[str, Any]]]] = {
            r.RunStarted: self._run_started,
            r.RunOwned: self._run_owned,
            r.RunStopped: self._run_stopped,
            r.RunFinished: self._run_finished,
            r.TurnStarted: self._turn_started,
            r.AttemptFailed: self._attempt_failed,
            r.AttemptInterrupted: self._attempt_interrupted,
            r.TurnFinished: self._turn_finished,
            r.TurnFailed: self._turn_failed,
            r.TurnCancelled: self._turn_cancelled,
            r.EventEmitted: self._emitted,
            r.EventNoted: self._emitted,
            r.EventInvalid: self._invalid,
            r.OperatorSaid: self._operator_said,
            r.GuidanceDelivered: self._guidance_delivered,
            r.ConfigChanged: self._config_changed,
            r.ConfigHeld: self._config_changed,
            r.ConfigRejected: self._config_rejected,
            r.WaveStarted: self._wave_started,
            r.WaveTimeout: self._wave_timeout,
            r.WaveJoined: self._wave_joined,
        }

    def apply(self, record: r.Record) -> list[dict[str, Any]]:
        """Apply the next record; return its lines, often none."""
        self._at = record.at
        self._time.apply(record)
        if isinstance(record, r.AttemptFailed | r.AttemptInterrupted | r.TurnFinished | r.TurnCancelled):
            self._cost += record.usage.cost
        if isinstance(record, r.IterationStarted):
            self._position = record
        elif isinstance(record, r.PlanReloaded):
            self._take(record.plan)
        elif isinstance(record, r.RunReopened):
            self._reopen(record)
        handler = self._handlers.get(type(record))
        return list(handler(record)) if handler is not None else []

    # -- the run ------------------------------------------------------------------------------------------------------

    def _run_started(self, record: r.RunStarted) -> Iterator[dict[str, Any]]:
        self._run = record.run
        self._take(record.plan)
        plan, place = self._plan, self._plan.place
        thinker = self._agents.get(GLOBAL) or next(iter(self._agents.values()), AgentPlan(name=GLOBAL))
        command, args = _command(thinker)
        fields = {
            "max_iterations": str(plan.max_iterations),
            "completion_promise": plan.promise,
            "completion_event": plan.completion,
            "review_every": str(plan.review.every if plan.review else 0),
            "objective": str(record.input.get("prompt", "")) or plan.objective,
            "preset": place.preset,
            "trigger": "branch" if record.parent else "cli",
            "created_at": iso(record.at),
            "project_dir": place.project,
            "work_dir": record.cwd or place.work_dir,
            "backend": PurePath(command).name or thinker.backend,
            "backend_args": args,
            "parent_run_id": record.parent,
            "isolation_mode": "worktree" if place.worktree else "run-scoped",
            "worktree_name": "",
            "worktree_path": "",
        }
        yield self._line("loop.start", fields)

    def _run_owned(self, record: r.RunOwned) -> Iterator[dict[str, Any]]:
        self._added += record.limits.add_iterations
        if record.epoch < 2:
            return
        fields = {
            "resumed_from_iteration": str(self._position.n),
            "previous_stop_reason": self._stopped or "crash",
            "add_iterations": str(record.limits.add_iterations),
            "new_max_iterations": str(self._plan.max_iterations + self._added),
        }
        self._stopped = ""
        yield self._line("loop.resume", fields)

    def _run_stopped(self, record: r.RunStopped) -> Iterator[dict[str, Any]]:
        self._stopped = record.reason
        yield self._line("loop.stop", {"reason": record.reason, **self._how_far(), **self._limit(record.reason)})

    def _run_finished(self, record: r.RunFinished) -> Iterator[dict[str, Any]]:
        result = record.result if isinstance(record.result, dict) else {}
        reason = str(result.get("reason") or record.reason)
        reason = STOP_REASONS.get(str(result.get("kind", "")), reason) if reason == "backend_failed" else reason
        self._stopped = reason
        completed = record.outcome == "completed"
        tail = {} if completed else {"iteration": str(self._position.n), "output_tail": record.reason[-TAIL:]}
        yield self._line("loop.complete" if completed else "loop.stop", {"reason": reason, **tail}, self._position.n)

    def _reopen(self, record: r.RunReopened) -> None:
        """Continue turns that had ended, within the wave that had been joined if they belong to it."""
        self._cost -= record.usage.cost
        if self._joined is not None and not set(record.asked).isdisjoint(self._joined.started.turns):
            self._wave = self._joined
        for attempt in record.below:
            name, _, n = attempt.rpartition(".")
            agent = name.rpartition("#")[0]
            self._turns.setdefault(name, _Turn(agent, self._position.n, record.at, int(n)))

    def _how_far(self) -> dict[str, str]:
        done = self._position.n - any(turn.agent != REVIEW for turn in self._turns.values())
        return {
            "completed_iterations": str(done),
            "stopped_before_iteration": str(done + 1),
            "max_iterations": str(self._plan.max_iterations + self._added),
        }

    def _limit(self, reason: str) -> dict[str, str]:
        """The limit that was reached, and the amount used."""
        plan = self._plan
        match reason:
            case "cost_budget":
                return {"cost_usd": str(self._cost), "max_cost_usd": str(plan.max_cost)}
            case "max_runtime":
                return {
                    "elapsed_ms": milliseconds(self._time.until(self._at)),
                    "max_runtime_ms": milliseconds(plan.max_runtime),
                }
            case "stalled":
                return {"identical_outputs": str(plan.stall), "stall_iterations": str(plan.stall)}
        return {}

    def _route(self, event: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The roles that *event* routes to, and the events that they may emit."""
        emits = {role.id: role.emits for role in self._plan.roles}
        roles = suggested(self._plan.handoff, list(emits), event)
        return roles, allowed(emits, roles)

    def _take(self, text: str) -> None:
        """Use the plan *text* from here on; ignore it if it cannot be read or is not a loop."""
        try:
            plan = from_json(text)
        except ValueError:
            return
        if isinstance(plan.coordination, LoopPlan):
            self._plan, self._agents = plan.coordination, dict(plan.agents)

    # -- iterations and reviews ---------------------------------------------------------------------------------------

    def _turn_started(self, record: r.TurnStarted) -> Iterator[dict[str, Any]]:
        if self._branch(record.turn):
            yield from self._branch_started(record)
            return
        reviews = record.agent == REVIEW
        fresh = _Turn(record.agent, self._position.n + reviews, record.at)
        turn = self._turns.setdefault(record.turn, fresh)
        agent = self._agents.get(record.agent) or AgentPlan(name=record.agent)
        command, args = _command(agent)
        mode, limit = agent.prompt_via, str(round((agent.timeout or 0) * 1000))
        prompt = self._prompts(record.turn, record.attempt)
        if turn.failed is not None and turn.failed.kind in TRANSIENT:
            yield self._paused(turn, turn.failed, record.at)
        turn.failed = None
        if reviews:
            fields = {"kind": "metareview", "backend_kind": agent.backend, "backend_provider": "", "command": command}
            fields |= {"prompt_mode": mode, "prompt": prompt, "timeout_ms": limit}
            yield self._line("review.start", fields, turn.iteration)
            return
        if turn is fresh:
            fields = {
                "recent_event": self._position.event,
                "suggested_roles": ",".join(self._position.roles),
                "allowed_events": ",".join(self._position.allowed),
                "backpressure": self._rejected,
                "prompt": prompt,
            }
            yield self._line("iteration.start", fields, turn.iteration)
        fields = {"backend_kind": agent.backend, "command": command, "args": args}
        yield self._line("backend.start", fields | {"prompt_mode": mode, "timeout_ms": limit}, turn.iteration)

    def _paused(self, turn: _Turn, failed: r.AttemptFailed, now: float) -> dict[str, Any]:
        self._pauses += 1
        fields = {
            "error_class": failed.kind,
            "pause_count": str(self._pauses),
            "backoff_ms": round((now - failed.at) * 1000),
            "output_tail": turn.end[1][-TAIL:],
        }
        return self._line("backend.transient", fields, turn.iteration)

    def _attempt_failed(self, record: r.AttemptFailed) -> Iterator[dict[str, Any]]:
        if (turn := self._turns.get(record.turn)) is not None:
            turn.failed = record
            yield from self._usage(turn, record.usage)
            if turn.agent != REVIEW:
                yield self._end("backend.finish", turn, *turn.end, record.kind == "timeout")

    def _attempt_interrupted(self, record: r.AttemptInterrupted) -> Iterator[dict[str, Any]]:
        if (turn := self._turns.get(record.turn)) is not None:
            yield from self._usage(turn, record.usage)
            if turn.agent != REVIEW:
                yield self._end("backend.finish", turn, "130", record.reason)

    def _turn_finished(self, record: r.TurnFinished) -> Iterator[dict[str, Any]]:
        if self._branch(record.turn):
            yield self._branch_ended(record.turn, "completed", record.text)
        elif (turn := self._turns.pop(record.turn, None)) is not None:
            yield from self._usage(turn, record.usage)
            if turn.agent != REVIEW:
                yield self._end("backend.finish", turn, "0", record.text)
            yield self._over(turn, "0", record.text)

    def _turn_failed(self, record: r.TurnFailed) -> Iterator[dict[str, Any]]:
        if self._branch(record.turn):
            yield self._branch_ended(record.turn, record.kind, record.reason)
        elif (turn := self._turns.pop(record.turn, None)) is not None:
            code, output = turn.end
            yield self._over(turn, code, output or record.reason, record.kind == "timeout")

    def _turn_cancelled(self, record: r.TurnCancelled) -> Iterator[dict[str, Any]]:
        if self._branch(record.turn):
            yield self._branch_ended(record.turn, "cancelled", record.reason)
        elif (turn := self._turns.pop(record.turn, None)) is not None:
            yield from self._usage(turn, record.usage)
            code, output = turn.end if turn.failed is not None else ("130", record.reason)
            yield self._over(turn, code, output, turn.failed is not None and turn.failed.kind == "timeout")

    def _over(self, turn: _Turn, code: str, output: str, late: bool = False) -> dict[str, Any]:
        """The line about the end of a turn."""
        if turn.agent == REVIEW:
            fields = {"kind": "metareview", "exit_code": code, "timed_out": late, "output": output}
            return self._line("review.finish", fields, turn.iteration)
        return self._end("iteration.finish", turn, code, output, late, elapsed_s=f"{self._at - turn.began:.3f}")

    def _end(self, topic: str, turn: _Turn, code: str, output: str, late: bool = False, **more: str) -> dict[str, Any]:
        return self._line(topic, {"exit_code": code, "timed_out": late, **more, "output": output}, turn.iteration)

    def _usage(self, turn: _Turn, usage: r.Usage) -> Iterator[dict[str, Any]]:
        if usage.input_tokens or usage.output_tokens or usage.cost:
            fields = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": usage.cached_tokens,
                "cache_write_tokens": 0,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "cost_usd": usage.cost,
            }
            if usage.context_window:
                fields["context_percent"] = round(100 * usage.context_tokens / usage.context_window, 1)
            yield self._line("backend.usage", fields, turn.iteration)

    # -- what is said -------------------------------------------------------------------------------------------------

    def _emitted(self, record: r.EventEmitted | r.EventNoted) -> Iterator[dict[str, Any]]:
        if isinstance(record, r.EventEmitted):
            self._rejected = ""
        yield self._said(record.event, record.payload, "agent", self._iteration(record.turn))

    def _invalid(self, record: r.EventInvalid) -> Iterator[dict[str, Any]]:
        self._rejected = f"{record.event}: {record.reason}"
        fields = {
            "recent_event": record.recent,
            "emitted": record.event,
            "suggested_roles": ",".join(record.suggested),
            "allowed_events": ",".join(record.allowed),
            "reason": record.reason,
        }
        yield self._line("event.invalid", fields, self._iteration(record.turn))

    def _operator_said(self, record: r.OperatorSaid) -> Iterator[dict[str, Any]]:
        topic = "operator.guidance" if record.what == "guide" else f"operator.{record.what}"
        yield self._said(topic, record.text or record.turn, record.source, None)

    def _guidance_delivered(self, record: r.GuidanceDelivered) -> Iterator[dict[str, Any]]:
        if record.attempt:
            return  # the next iteration receives it, too
        told = f"Consumed {len(record.messages)} guidance message(s)"
        yield self._said("operator.guidance.consumed", told, "harness", self._position.n)

    def _config_changed(self, record: r.ConfigChanged) -> Iterator[dict[str, Any]]:
        self._take(record.plan)
        yield self._line("config.changed", {"keys": ",".join(record.keys), "plan_hash": record.plan_hash})

    def _config_rejected(self, record: r.ConfigRejected) -> Iterator[dict[str, Any]]:
        yield self._line("config.rejected", {"reason": record.reason})

    # -- waves --------------------------------------------------------------------------------------------------------

    def _wave_started(self, record: r.WaveStarted) -> Iterator[dict[str, Any]]:
        self._wave = _Wave(record, self._position, record.at)
        fields = {
            "wave_id": self._wave_id(record.wave),
            "trigger_topic": record.event,
            "branch_count": str(len(record.turns)),
            "opening_recent_event": self._position.event,
            "opening_roles": ",".join(self._position.roles),
            "opening_events": ",".join(self._position.allowed),
            "objectives": ",".join(record.objectives),
            "concurrency_source": "agent",
        }
        yield self._line("wave.start", fields, self._position.n)

    def _branch_started(self, record: r.TurnStarted) -> Iterator[dict[str, Any]]:
        wave = self._wave
        assert wave is not None
        self._turns[record.turn] = _Turn(record.agent, wave.position.n, record.at, record.attempt)
        event = _base(wave.started.event) or wave.position.event
        roles, events = self._route(event)
        fields = {
            "wave_id": self._wave_id(wave.started.wave),
            "branch_id": self._branch(record.turn),
            "objective": wave.started.objectives[wave.started.turns.index(record.turn)],
            "routing_event": event,
            "branch_roles": ",".join(roles),
            "branch_events": ",".join(events),
        }
        yield self._line("wave.branch.start", fields, wave.position.n)

    def _branch_ended(self, name: str, outcome: str, output: str) -> dict[str, Any]:
        wave, turn = self._wave, self._turns.pop(name, None)
        assert wave is not None
        reason = STOP_REASONS.get(outcome, "backend_failed")
        if outcome == "completed":
            run = child_run_id(self._run, name, turn.attempt if turn else 1)
            reason = self._end_of(run) or "max_iterations"
        wave.reasons[name] = reason
        fields = {
            "wave_id": self._wave_id(wave.started.wave),
            "branch_id": self._branch(name),
            "stop_reason": reason,
            "elapsed_ms": milliseconds(self._at - (turn.began if turn else self._at)),
            "output": output,
        }
        return self._line("wave.branch.finish", fields, wave.position.n)

    def _wave_timeout(self, record: r.WaveTimeout) -> Iterator[dict[str, Any]]:
        late = ",".join(self._branch(turn) for turn in record.turns)
        fields = {"wave_id": self._wave_id(record.wave), "timed_out_branches": late}
        yield self._line("wave.timeout", fields, self._position.n)

    def _wave_joined(self, record: r.WaveJoined) -> Iterator[dict[str, Any]]:
        wave = self._wave
        if wave is None:
            return
        trigger, n = wave.started.event, wave.position.n
        common = {"wave_id": self._wave_id(record.wave), "trigger_topic": trigger}
        elapsed = {"elapsed_ms": milliseconds(record.at - wave.began)}
        told = ",".join(f"{self._branch(turn)}:{wave.reasons.get(turn, outcome)}" for turn, outcome in record.outcomes)
        count = {"branch_count": str(len(record.outcomes)), "branch_outcomes": told, "concurrency_source": "agent"}
        yield self._line("wave.join.start", common | count | elapsed, n)
        failed = [self._branch(turn) for turn, outcome in record.outcomes if outcome != "completed"]
        if len(failed) == len(record.outcomes):
            yield self._line("wave.failed", {"wave_id": common["wave_id"], "failed_branches": ",".join(failed)}, n)
        else:
            joined = {"joined_topic": trigger + JOINED, "routing_basis": record.event}
            roles, events = self._route(record.event)
            resume = {"resume_recent_event": record.event, "resume_roles": ",".join(roles)}
            resume["resume_events"] = ",".join(events)
            yield self._line("wave.join.finish", common | joined | resume | elapsed, n)
            yield self._said(trigger + JOINED, common["wave_id"], "harness", n)
        self._wave, self._joined = None, wave

    def _wave_id(self, number: int) -> str:
        return wave_id(self._run, number)

    def _branch(self, turn: str) -> str:
        """`branch-2` for the turn that is the second branch of the open wave; empty for any other turn."""
        turns = self._wave.started.turns if self._wave is not None else ()
        return f"branch-{turns.index(turn) + 1}" if turn in turns else ""

    # -- lines --------------------------------------------------------------------------------------------------------

    def _iteration(self, turn: str) -> int:
        found = self._turns.get(turn)
        return found.iteration if found is not None else self._position.n

    def _line(self, topic: str, fields: dict[str, Any], iteration: int | None = None) -> dict[str, Any]:
        return line_of(self._run, topic, self._at, iteration, fields=fields)

    def _said(self, topic: str, payload: str, source: str, iteration: int | None) -> dict[str, Any]:
        return line_of(self._run, topic, self._at, iteration, payload=payload, source=source)


def fold(
    records: Iterable[r.Record], prompts: Prompts = lambda turn, attempt: "", end_of: EndOf = lambda run: ""
) -> Iterator[dict[str, Any]]:
    """The lines for *records*, which begin with a run's first record."""
    projection = LoopProjection(prompts, end_of)
    for record in records:
        yield from projection.apply(record)


def _base(event: str) -> str:
    """The event that routes the branches of a wave; empty for a wave that returns to the position where it began."""
    base = event.removesuffix(".parallel")
    return "" if base == "explore" else base


def _command(agent: AgentPlan) -> tuple[str, str]:
    """The command of *agent*, and its arguments in that system's notation of a list."""
    return (agent.argv[0] if agent.argv else ""), ",".join(agent.argv[1:])
