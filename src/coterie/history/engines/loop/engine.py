"""The loop: an event routes to a role, and the events accepted in the role's turn route to the next one.

Before each iteration the plan is read again, limits are checked, and a review may come first. Only accepted events of
agents and joins of waves move the position.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, assert_never

import msgspec

from coterie.history.engines.commands import (
    INFRASTRUCTURE,
    Ask,
    Cancel,
    Command,
    Emit,
    Finish,
    Note,
    Reload,
    Reply,
    Stop,
)
from coterie.history.engines.loop.objectives import objectives
from coterie.history.engines.loop.outcome import event_of, is_team
from coterie.history.engines.loop.promise import refusal
from coterie.history.engines.loop.prompt_state import PromptState, TurnOutput
from coterie.history.engines.loop.schedule import MOMENT, limit_reached, most_iterations, review_is_due
from coterie.history.engines.loop.state import State, TurnState, Wave
from coterie.history.engines.loop.unmerged import describe_unmerged
from coterie.history.engines.loop.verdict import NAME_MOST, View, incomplete, verdict
from coterie.history.engines.printed import printed
from coterie.history.engines.versions import rules_of
from coterie.history.journal import records
from coterie.history.journal.records import Record
from coterie.team.planning.branches import BRANCH, asked_by_loop
from coterie.team.planning.loop import GLOBAL, REVIEW, LoopPlan
from coterie.team.planning.plan import AgentPlan, from_json
from coterie.team.topology.events import EXPLORE, JOINED, PARALLEL, allowed, matches, suggested

LASTING_FAILURES = {"auth": "auth_failed", "quota": "quota_exhausted", "not_found": "backend_failed"}
"""Kinds of failure that a retry cannot correct, which end the run at once, and the reason given."""


class LoopEngine:
    """Decides what a loop does next.

    Args:
        plan: Its roles, limits and texts.
        agents: The plans of its agents, changed in place by a reload.
    """

    name: ClassVar[str] = "loop"
    version: ClassVar[int] = 3

    def __init__(self, plan: LoopPlan, agents: dict[str, AgentPlan]) -> None:
        self.plan = plan
        self.state = State()
        self._agents = agents
        self._commands: list[Command] = []

    # -- input --------------------------------------------------------------------------------------------------------

    def judge(self, said: Reply | Emit) -> Record:
        """The record of *said*; for events see `coterie.history.engines.loop.verdict`."""
        match said:
            case Emit():
                return verdict(self.view(said.turn), said)
            case Reply():
                refused = self._promise_refused(said)
                return records.TurnFinished(
                    turn=said.turn,
                    attempt=said.attempt,
                    text=said.text,
                    usage=said.usage,
                    message=said.message,
                    outputs=said.given | (said.outputs or {}),
                    promised=refused == "",
                    promise_refused=refused or "",
                )
            case _:
                assert_never(said)

    def view(self, name: str) -> View:
        """The input of verdicts on events of the turn *name*."""
        turn = self.state.turns.get(name)
        if turn is None:
            return View(over=True)
        missing = tuple(event for event in self.plan.required if event not in self.state.accepted)
        waving = turn.wave != ""
        return msgspec.structs.replace(turn.view, missing=missing, waving=waving)

    def prompt_state(self, name: str) -> PromptState:
        """The state that the prompt of the turn *name* shows; nearly empty if the turn is over."""
        state, plan = self.state, self.plan
        turn = state.turns.get(name) or TurnState(iteration=state.iteration, view=View(over=True))
        return PromptState(
            turn=name,
            iteration=turn.iteration,
            most=self.most,
            objective=state.objective or plan.objective,
            view=self.view(name),
            payload=state.payload,
            rejected=state.rejected,
            promise_refused=state.promise_refused,
            failure=state.failure,
            printed=state.printed,
            guidance=(*turn.guidance, *(text for _, text in state.guidance if turn.retried)),
            outputs=tuple(state.outputs),
            accepted=tuple(turn.events),
            team=turn.team,
        )

    def chosen(self, role: str, outputs: Mapping[str, Any]) -> str:
        """The event that the *outputs* of the team that plays *role* select; empty if there is none."""
        return event_of(self.plan, role, outputs)

    @property
    def most(self) -> int:
        """The most iterations of the run."""
        return most_iterations(self.plan, self.state)

    def seconds_left(self, now: float) -> float | None:
        """Seconds that a turn started at *now* may take; None if unlimited."""
        if not self.plan.max_runtime:
            return None
        left = self.plan.max_runtime - self.state.time.until(now)
        return left if left > MOMENT else 0.0

    @property
    def unmerged(self) -> int:
        """The wave whose branches have ended and whose work may still have to be merged; 0 if there is none."""
        return self.state.unmerged

    def _promise_refused(self, reply: Reply) -> str | None:
        """The reason that the promise in *reply* does not count: empty if it counts, None if there is no promise."""
        turn = self.state.turns.get(reply.turn)
        if turn is None or turn.review:
            return None
        refused = refusal(self.plan.promise, reply.text, reply.prompt, self.prompt_state(reply.turn).guidance)
        if refused is not None and turn.emitted:
            return "the turn emitted an event, accepted or rejected"
        return refused if refused != "" else incomplete(self.view(reply.turn).missing, reply.open_tasks)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def step(self, record: Record) -> Sequence[Command]:
        """Apply *record*, and return the commands that follow from it."""
        self._commands = []
        state = self.state
        if not state.over:
            state.time.apply(record)
            self._apply(record)
        return self._commands

    def _apply(self, record: Record) -> None:
        state = self.state
        match record:
            case records.RunStarted():
                state.objective = str(record.input.get("prompt", ""))
                state.rules = rules_of(self.name, record.engine_version)
                if self.plan.branch:
                    state.position = str(record.input.get("event", "")) or self.plan.branch
                self._read_again()
            case records.RunOwned():
                state.added += 0 if self.plan.branch else record.limits.add_iterations
                if state.stopped:
                    state.stopped, state.same = False, 0  # a resume tries again
                    self._read_again()
            case records.ConfigChanged():
                self._take(record.plan)
                self._decide()
            case records.ConfigKept() | records.ConfigRejected():
                self._decide()
            case records.PlanReloaded():
                self._take(record.plan)
            case records.OperatorSaid(what="guide"):
                state.guidance.append((record.message, record.text))
            case records.OperatorSaid(what="interrupt"):
                for name, running in state.turns.items():
                    running.interrupted |= record.turn in ("", name)
                    if running.interrupted and running.team:  # its own turns would be retried
                        self._commands.append(Cancel(turn=name, reason="an operator interrupted it"))
            case records.TreesJoined():
                state.unmerged = 0
                if text := describe_unmerged(record):
                    state.add_output(TurnOutput(name="the files of the branches", text=text), counts=False)
            case records.GuidanceDelivered(attempt=0):
                state.guidance = [one for one in state.guidance if one[0] not in record.messages]
            case records.EventEmitted():
                self._accepted(record)
            case records.TreeSaved(lost=True) if (saved := state.turns.get(record.turn)) is not None:
                saved.lost = True
                self._void_completion(saved)
            case records.TreeAttested(voids=True) if (left := state.turns.get(record.turn)) is not None:
                state.accepted -= left.firsts
                left.void()
            case records.GateChecked(passed=False):
                state.gated = True
            case records.EventInvalid():
                turn = state.turns.get(record.turn)
                if turn is not None and not turn.review:
                    turn.emitted = True
                    state.rejected = f"{record.event[:NAME_MOST]}: {record.reason}"
            case records.AttemptFailed():
                state.cost += record.usage.cost
                self._retries(record.turn)
                if (turn := state.turns.get(record.turn)) is not None and record.kind not in INFRASTRUCTURE:
                    turn.printed = printed(record)
                self._keep_events(record.turn, "it failed")
            case records.AttemptInterrupted():
                state.cost += record.usage.cost
                self._retries(record.turn)
                self._cut_off(record)
            case records.TurnFinished() | records.TurnFailed() | records.TurnCancelled():
                self._ended(record)
            case records.RunReopened():
                state.cost -= record.usage.cost
                if (wave := state.wave) is not None:
                    for name in record.asked:
                        wave.outcomes.pop(name, None)
                        wave.texts.pop(name, None)

    def _read_again(self) -> None:
        self._commands.append(Reload())

    def _take(self, text: str) -> None:
        """Continue under the plan *text*; settings fixed at the start keep their values."""
        plan = from_json(text)
        if isinstance(plan.coordination, LoopPlan):
            self.plan = msgspec.structs.replace(plan.coordination, place=self.plan.place)
            self._agents.clear()
            self._agents.update(asked_by_loop(plan))

    # -- before an iteration ------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Stop, review, or begin the next iteration."""
        state = self.state
        reason = limit_reached(self.plan, state)
        if reason == "max_iterations" and self.plan.branch:
            self._finish("completed", reason)
        elif reason:
            state.stopped = True
            self._commands.append(Stop(reason=reason))
        elif review_is_due(self.plan, state):
            state.reviewed = state.iteration + 1
            state.reviews += 1
            name = f"review#{state.reviews}"
            state.turns[name] = TurnState(iteration=state.iteration + 1, review=True, view=View(review=True))
            self._commands.append(Ask(turn=name, agent=REVIEW))
        else:
            self._iterate()

    def _iterate(self) -> None:
        state, plan = self.state, self.plan
        state.iteration += 1
        name = f"iteration#{state.iteration}"
        ids = [role.id for role in plan.roles]
        roles = suggested(plan.handoff, ids, state.position)
        view = View(
            recent=state.position,
            suggested=roles,
            allowed=allowed({role.id: role.emits for role in plan.roles}, roles),
            anything=not ids,
            completion=plan.completion,
            branches=plan.parallel.most if plan.parallel is not None and not plan.branch else 0,
        )
        guidance, state.guidance = state.guidance, []
        agent = roles[0] if roles else GLOBAL
        words = [*state.unheeded, *(text for _, text in guidance)]
        state.unheeded = []
        turn = TurnState(iteration=state.iteration, view=view, guidance=words, team=is_team(plan, agent))
        state.turns[name] = turn
        self._note(
            records.IterationStarted(
                n=state.iteration, role=agent, event=state.position, roles=roles, allowed=view.allowed
            )
        )
        if guidance:
            self._note(records.GuidanceDelivered(turn=name, messages=tuple(message for message, _ in guidance)))
        self._commands.append(Ask(turn=name, agent=agent))

    # -- during one ---------------------------------------------------------------------------------------------------

    def _accepted(self, record: records.EventEmitted) -> None:
        state = self.state
        turn = state.turns.get(record.turn)
        if turn is None:
            return
        turn.emitted = True
        turn.events.append(record.event)
        state.rejected, state.gated = "", False
        if record.event not in state.accepted:
            turn.firsts.add(record.event)
        state.accepted.add(record.event)
        if record.event == turn.view.completion:
            turn.completes = True
            self._void_completion(turn)
        elif record.event.endswith(PARALLEL):
            turn.wave, turn.payload = record.event, record.payload
        else:
            turn.routes, turn.carries = record.event, record.payload

    def _void_completion(self, turn: TurnState) -> None:
        """Drop the completion of the run by *turn* if the files of its attempt are lost, since the turn is retried."""
        if turn.lost and turn.completes:
            turn.completes = False
            turn.events = [event for event in turn.events if event != turn.view.completion]

    def _cut_off(self, record: records.AttemptInterrupted) -> None:
        """Cancel the turn if an operator interrupted it; any other is retried, and keeps the events it emitted."""
        turn, ended_early = self.state.turns.get(record.turn), self.state.rules.ends_early
        if ended_early and turn is not None and turn.completes:
            self._finish("completed", "completion_event")
        elif turn is not None and turn.interrupted:
            self._commands.append(Cancel(turn=record.turn, reason="an operator interrupted it"))
        elif ended_early and record.reason == "interrupted":
            self._keep_events(record.turn, "it was interrupted")

    def _retries(self, name: str) -> None:
        if (turn := self.state.turns.get(name)) is not None:
            turn.retried, turn.lost = True, False

    def _keep_events(self, name: str, what: str) -> None:
        """Cancel the turn if it emitted events, which are kept, instead of retrying it."""
        turn = self.state.turns.get(name)
        if turn is not None and turn.events:
            self._commands.append(Cancel(turn=name, reason=f"{what}; the events it emitted are kept"))

    def _ended(self, record: records.TurnFinished | records.TurnFailed | records.TurnCancelled) -> None:
        state = self.state
        if state.wave is not None and record.turn in state.wave.turns:
            self._branch_ended(state.wave, record)
            return
        turn = state.turns.pop(record.turn, None)
        if turn is None:
            return
        if not isinstance(record, records.TurnFailed):
            state.cost += record.usage.cost
        if isinstance(record, records.TurnFinished):
            turn.guidance = []  # the turn showed it
            if not turn.review:
                state.promise_refused = record.promise_refused
                state.add_output(TurnOutput(name=f"iteration {turn.iteration}", text=record.text))
                state.failure, state.printed, state.failures = "", "", 0
        elif turn.printed and turn.events and isinstance(record, records.TurnCancelled):
            state.failure, state.printed = f"{record.turn}: {record.reason}", turn.printed
        state.unheeded += turn.guidance
        if turn.review:
            self._read_again()
        elif turn.completes:
            self._finish("completed", "completion_event")
        elif isinstance(record, records.TurnFinished) and record.promised:
            self._finish("completed", "completion_promise")
        elif self.plan.branch and turn.interrupted and not turn.events and isinstance(record, records.TurnCancelled):
            state.failed = "cancelled"
            self._finish("failed", "interrupted", "an operator interrupted it", (record.turn,))
        elif not isinstance(record, records.TurnFailed) or self._goes_on_after(record, turn.printed):
            self._route(record.turn, turn)

    def _goes_on_after(self, record: records.TurnFailed, printed: str = "", branches: tuple[str, ...] = ()) -> bool:
        """Count a failure, which the next prompt shows unless it was a provider's. Whether the run continues.

        Args:
            branches: The turns of the wave that *record* is about, if it is about a wave.
        """
        state = self.state
        state.failures += 1
        state.failed = record.kind
        text = f"{record.turn} failed ({record.kind}): {record.reason}"
        if record.kind not in INFRASTRUCTURE:
            state.failure, state.printed = text, printed
        if self._lasts(record.kind):
            self._finish("failed", LASTING_FAILURES[record.kind], text, branches or (record.turn,))
            return False
        if state.failures >= self.plan.max_failures and limit_reached(self.plan, state) != "max_runtime":
            self._finish("failed", "backend_failed", text, branches or (record.turn,))
            return False
        return True

    def _lasts(self, kind: str) -> bool:
        return kind in LASTING_FAILURES and not (kind == "not_found" and self.state.rules.retries_missing)

    def _route(self, name: str, turn: TurnState) -> None:
        """Continue from the event that the turn emitted last; without one, from the same position."""
        if turn.wave:
            self._open_wave(name, turn)
            return
        self._move(turn)
        self._read_again()

    def _move(self, turn: TurnState) -> None:
        if turn.routes:
            self.state.position, self.state.payload = turn.routes, turn.carries

    # -- waves --------------------------------------------------------------------------------------------------------

    def _open_wave(self, name: str, turn: TurnState) -> None:
        state = self.state
        state.waves += 1
        base = turn.wave[: -len(PARALLEL)]
        items = objectives(turn.payload, max(1, turn.view.branches))
        turns = tuple(f"wave-{state.waves}.{k}#1" for k in range(1, len(items) + 1))
        self._move(turn)
        event = state.position if base == EXPLORE else base
        state.wave = Wave(number=state.waves, event=turn.wave, base=base, turns=dict(zip(turns, items, strict=True)))
        self._note(records.WaveStarted(wave=state.waves, turn=name, event=turn.wave, objectives=items, turns=turns))
        for branch, item in zip(turns, items, strict=True):
            self._commands.append(Ask(turn=branch, agent=BRANCH, prompt=item, given={"event": event}))

    def _branch_ended(
        self, wave: Wave, record: records.TurnFinished | records.TurnFailed | records.TurnCancelled
    ) -> None:
        if not isinstance(record, records.TurnFailed):
            self.state.cost += record.usage.cost
        match record:
            case records.TurnFinished():
                wave.outcomes[record.turn] = "completed"
                wave.texts[record.turn] = record.text
            case records.TurnFailed():
                wave.outcomes[record.turn] = record.kind
                wave.texts[record.turn] = "" if record.kind in INFRASTRUCTURE else record.reason
            case records.TurnCancelled():
                wave.outcomes[record.turn] = "cancelled"
        if len(wave.outcomes) == len(wave.turns):
            self._join(wave)

    def _join(self, wave: Wave) -> None:
        """Continue after all branches have ended, with their outputs."""
        state = self.state
        state.wave, state.unmerged = None, wave.number
        late = tuple(turn for turn in wave.turns if wave.outcomes[turn] == "timeout")
        if late:
            self._note(records.WaveTimeout(wave=wave.number, turns=late))
        for k, (turn, objective) in enumerate(wave.turns.items(), 1):
            outcome = wave.outcomes[turn]
            text = "" if outcome == "completed" else f" ({_outcome_text(outcome)})"
            name = f"wave {wave.number}, branch {k}{text}: {objective}"
            state.add_output(TurnOutput(name=name, text=wave.texts.get(turn, "")), counts=False)
        succeeded = "completed" in wave.outcomes.values()
        called_off = set(wave.outcomes.values()) == {"cancelled"}
        if succeeded and wave.base != EXPLORE:
            joined = wave.base + JOINED
            state.position, state.payload = joined if self._is_routed(joined) else wave.base, ""
        outcomes = tuple((turn, wave.outcomes[turn]) for turn in wave.turns)
        self._note(records.WaveJoined(wave=wave.number, event=state.position, outcomes=outcomes))
        reason = ", ".join(f"{turn}: {_outcome_text(outcome)}" for turn, outcome in outcomes)
        kind = next((one for one in wave.outcomes.values() if self._lasts(one)), "failed")
        failed = records.TurnFailed(turn=f"wave {wave.number}", kind=kind, reason=f"no branch succeeded ({reason})")
        if succeeded or called_off or self._goes_on_after(failed, branches=tuple(wave.turns)):
            self._read_again()

    def _is_routed(self, event: str) -> bool:
        return any(matches(key, event) for key, _ in self.plan.handoff)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self, outcome: str, reason: str, detail: str = "", at_fault: tuple[str, ...] = ()) -> None:
        state = self.state
        state.over = True
        self._commands += [Cancel(turn=turn, reason="the run is over") for turn in state.turns]
        text = state.outputs[-1].text if state.outputs else ""
        if self.plan.branch and state.gated:  # a branch has no other iteration; the loop must not believe its words
            text = f"{text.rstrip()}\n\nIts completion was refused: {state.rejected or state.promise_refused}".lstrip()
        result = {"text": text, "reason": reason, "iterations": state.iteration}
        if outcome == "failed":
            result["kind"] = state.failed
        self._commands.append(Finish(outcome=outcome, result=result, reason=detail or reason, at_fault=at_fault))

    def _note(self, record: Record) -> None:
        self._commands.append(Note(record=record))


def _outcome_text(outcome: str) -> str:
    """The words for the *outcome* of a branch in a prompt."""
    return "failed" if outcome in INFRASTRUCTURE else outcome
