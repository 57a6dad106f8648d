"""The timeline of a run: a plain sentence for each record."""

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from coterie.base.clock import iso_time
from coterie.history.journal import records as r
from coterie.history.views.words import (
    answer,
    arrow,
    dollars,
    duration,
    exited,
    listed,
    pairs,
    path_end,
    plural,
    promise_refused,
    quoted,
    request_answered,
    worker_command,
)
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import from_json
from coterie.team.topology.patterns.inputs import task_of

_SAID = 200
"""How many characters of a failed attempt's output are quoted."""


class Line(Struct, frozen=True, kw_only=True):
    """One line of a timeline.

    Attributes:
        seq: The number of its record.
        seconds: Seconds since the run began.
        text: A sentence, without full stop; further lines have findings in files.
        turn: The turn that it is about, if any.
    """

    seq: int
    seconds: float
    topic: str
    text: str
    turn: str = ""


class Timeline:
    """Builds the timeline of a run, record by record.

    Attributes:
        lines: The lines so far.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._began: float | None = None
        self._attempts: dict[str, r.TurnStarted] = {}
        self._limits: dict[str, bool] = {}
        self._without_cost: set[str] = set()
        self._is_system = False

    def apply(self, record: r.Record) -> None:
        """Apply the next record."""
        if self._began is None:
            self._began = record.at
        topic = str(record.__struct_config__.tag)
        line = Line(
            seq=record.seq,
            seconds=record.at - self._began,
            topic=topic,
            text=self._say(record),
            turn=getattr(record, "turn", ""),
        )
        self.lines.append(line)

    def _say(self, record: r.Record) -> str:
        match record:
            case r.RunStarted() | r.ConfigChanged():
                self._plan(record.plan)
                self._is_system |= getattr(record, "engine", "") == "system"
            case r.CallAsked() if self._is_system:
                return f"the system calls {record.agent}: {record.turn}"
            case r.CallDropped() if self._is_system:
                return f"the system no longer waits for {record.turn}"
            case r.TurnStarted():
                self._attempts[record.turn] = record
            case r.TurnFinished():
                began = self._attempts.pop(record.turn, record)
                took = [duration(record.at - began.at), *_cost(record.usage)]
                return f"{_turn_finished(record)} ({', '.join(took)}){self._cost_warning(record, began)}"
            case r.RunOwned():
                self._limits["--max-cost"] = record.limits.max_cost is not None
        return sentence(record)

    def _cost_warning(self, finished: r.TurnFinished, started: r.Record) -> str:
        name, limits = finished.turn.rpartition("#")[0], [limit for limit, is_set in self._limits.items() if is_set]
        if not limits or finished.usage.cost or finished.usage.turns or name in self._without_cost:
            return ""
        self._without_cost.add(name)  # reported once
        return f"; warning: {getattr(started, 'agent', name)} reported no cost, so {listed(limits)} may have no effect"

    def _plan(self, text: str) -> None:
        try:
            plan = from_json(text)
        except ValueError:
            return
        loop = plan.coordination if isinstance(plan.coordination, LoopPlan) else None
        self._limits["event_loop.max_cost_usd"] = loop is not None and loop.max_cost > 0
        self._without_cost |= {name for name, agent in plan.agents.items() if agent.kind not in ("agent", "topology")}


def fold(records: Iterable[r.Record]) -> Timeline:
    """The timeline of *records*, which begin with a run's first record."""
    view = Timeline()
    for record in records:
        view.apply(record)
    return view


def sentence(record: r.Record) -> str:
    """Describe *record* in a sentence without full stop."""
    return _SENTENCES[type(record)](record)


def _run_started(record: r.RunStarted) -> str:
    asked = task_of((), record.input)
    what = f"run {record.run}" + (f" of the team {record.topology}" if record.topology else "")
    if record.forked_from is not None:
        lacks = f" without {listed(record.forked_from.left_out)}" if record.forked_from.left_out else ""
        what += f", forked from {record.forked_from.run} at record {record.forked_from.seq}{lacks},"
    thread = f" in thread {record.thread.name}" if record.thread is not None else ""
    return f"{what} began{thread}" + (f": {quoted(asked)}" if asked else "")


def _run_owned(record: r.RunOwned) -> str:
    limits = {name: value for name in ("max_turns", "max_cost") if (value := getattr(record.limits, name)) is not None}
    how = "a process took over the run" + (f" again (owner {record.epoch})" if record.epoch != 1 else "")
    return how + (f", with {pairs(limits)}" if limits else "") + _below(record.warnings)


def _turn_started(record: r.TurnStarted) -> str:
    after = f", marked by {listed(record.inputs)}" if record.inputs else ""
    if record.item is not None:
        name = f": {quoted(record.item_name)}" if record.item_name else ""
        after = f", on item {record.item[0]} of {record.item[1]}{name}"
    return f"{record.turn} started" + (f" again (attempt {record.attempt})" if record.attempt > 1 else after)


def _set_started(record: r.SetStarted) -> str:
    taken = f", the first of {record.found}" if record.found else ""
    given = f" from {record.given_by}" if record.given_by else ""
    after = f", marked by {listed(record.inputs)}" if record.inputs else ""
    return f"{record.set} started with {record.items} item{'s' if record.items != 1 else ''}{taken}{given}{after}"


def _attempt_failed(record: r.AttemptFailed) -> str:
    ended = exited(record.exit_code, record.signal)
    kind = [ended] if ended and record.kind == "exit" else list(filter(None, [record.kind, ended]))
    what = f"attempt {record.attempt} of {record.turn} failed ({', '.join([*kind, *_cost(record.usage)])})"
    return f"{what}: {cause(record)}" + (f"; its quota opens at {iso_time(record.until)}" if record.until else "")


def cause(record: r.AttemptFailed) -> str:
    """Why an attempt failed, with the last line of its output if that is not part of the reason."""
    return record.reason + _last_line((record.text.rstrip() or record.log.rstrip())[-_SAID:], record.reason)


def _last_line(printed: str, reason: str) -> str:
    """The last line of what was *printed*, if it is not part of the *reason*."""
    *_, last = "", *printed.splitlines()
    return f"; its last line was {quoted(last, _SAID)}" if last.strip() and last not in reason else ""


def _attempt_session(record: r.AttemptSession) -> str:
    said = f"attempt {record.attempt} of {record.turn} works in the session {record.session}"
    if not record.lost:
        return said
    return f"{said}; warning: the session {record.lost} could not be continued: {record.reason}"


def _attempt_interrupted(record: r.AttemptInterrupted) -> str:
    reasons = {
        "crash": "the process that ran it died",
        "forked": "it belongs to the run that this one was forked from",
        "parked": "it needs a person, and none answered in time",
        "max_cost": "it cost more than was reserved for it, and the budget is spent",
        "shortage": "the machine lacked space, descriptors or memory",
    }
    why = reasons.get(record.reason, record.reason)
    cost = "".join(f" ({one})" for one in _cost(record.usage))
    left = "; its code ignored that and was abandoned" if record.abandoned else ""
    return f"attempt {record.attempt} of {record.turn} was cut off{cost}: {why}{left}"


def _turn_finished(record: r.TurnFinished) -> str:
    said = answer(record.outputs, record.text) or "nothing"
    return "; ".join(filter(None, (f"{record.turn} answered {said}", _folded(promise_refused(record.promise_refused)))))


def _event_invalid(record: r.EventInvalid) -> str:
    why = record.reason or f"allowed: {listed(record.allowed) or 'none'}"
    return f"{record.turn} emitted {record.event}, which was not allowed ({_folded(why)})"


def _gate_checked(record: r.GateChecked) -> str:
    if record.passed:
        return f"the gate {quoted(shlex.join(record.argv))} of {record.turn} passed ({duration(record.seconds)})"
    return f"{record.reason} ({duration(record.seconds)}){_last_line(record.output, record.reason)}"


def _folded(text: str) -> str:
    """*text* with its further lines below the sentence."""
    return text.replace("\n", "\n  ")


_MISSING = {
    "event": "said nothing",
    "cpu": "computed nothing",
    "process": "begun and ended no process",
    "file": "changed no file",
}
"""Descriptions of missing signs of life, by sign."""


def _attention_asked(record: r.AttentionAsked) -> str:
    if record.kind == "stall":
        return f"{record.turn} may be stuck{_because(record.detail)}"
    return f"{record.turn} asks for permission: {record.tool}" + (f" ({record.detail})" if record.detail else "")


def _speaker(record: r.Record, operator: str = "the operator") -> str:
    return "the agent that began the run" if record.source == "agent" else operator


def _operator_said(record: r.OperatorSaid) -> str:
    if record.what == "guide":
        return f"{_speaker(record)} said: {quoted(record.text)}"
    if record.what == "change":
        return f"{_speaker(record)} changed {record.text}"
    if record.what == "stop":
        return f"{_speaker(record)} stopped the run"
    if record.what in r.LASTING:
        where = "this run" if record.what == "always" else "all runs of the project"
        return f"{_speaker(record)} allowed {record.text} in {where}"
    if record.turn == r.CONFIG:
        return f"{_speaker(record)} said to {record.what} the settings that are held back"
    return f"{_speaker(record)} asked to {record.what} {record.turn or 'everything that runs'}"


def _loop_exhausted(record: r.LoopExhausted) -> str:
    spent = f"after {record.turn}, {listed(map(arrow, record.exhausted))} had fired as often as allowed"
    return f"{spent}; {f'went on by {arrow(record.forced)}' if record.forced else 'that path ended'}"


def _config_changed(record: r.ConfigChanged) -> str:
    changes = f"; changed: {listed(record.keys)}" if record.keys else "; nothing changed"
    return f"the plan was read again{changes}{_below(record.warnings)}"


def held_back(record: r.ConfigHeld) -> str:
    """Describe the settings that are held back."""
    lines = [f"{name}: {old} stays, not {new}" for name, old, new in record.held]
    return f"weaker settings are held back, since an agent may have written them{_below(lines)}"


def _config_held(record: r.ConfigHeld) -> str:
    if not record.held:
        return f"{_config_changed(record)}; no setting is held back any more"
    return f"{_config_changed(record)}; {held_back(record)}\n  to decide: coterie control respond RUN config take|keep"


def _below(lines: Iterable[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def _iteration(record: r.IterationStarted) -> str:
    after = f", after {record.event}" if record.event else ""
    return f"iteration {record.n} began" + (f" for {record.role}" if record.role else "") + after


def _tree_saved(record: r.TreeSaved) -> str:
    if record.lost:
        return f"the files {record.turn} left are lost: {record.problem}"
    if not record.commit:
        return f"the files {record.turn} left could not be kept: {record.problem}"
    return f"the files {record.turn} left are kept as {record.commit[:12]}" + _because(record.problem)


def _tree_attested(record: r.TreeAttested) -> str:
    if record.problem:
        return f"{record.turn} left its work tree: {record.problem}"
    return "; ".join((_moved(record), *record.notes))


def _moved(record: r.TreeAttested) -> str:
    before, after = record.before, record.after
    if before is None or after is None:
        return f"{record.turn} stayed in its work tree"
    parts = [f"to {after.head[:12]}" if after.head != before.head else ""]
    parts.append(f"to the branch {after.branch or '(none)'}" if after.branch != before.branch else "")
    moved = " and ".join(filter(None, parts))
    said = f"{record.turn} moved its work tree {moved}" if moved else f"{record.turn} left no commit in its work tree"
    return said + ("; meanwhile the main checkout moved, too" if before.main != after.main else "")


def _trees_joined(record: r.TreesJoined) -> str:
    if record.problem:
        return f"the files of the branches could not be joined: {record.problem}"
    parts = [f"the files of {listed(record.turns)} were joined"] if record.turns else []
    parts += [
        f"those of {one.turn} stay on {one.branch}, in {one.path}{_because(listed(one.files) or one.reason)}"
        for one in record.kept
    ]
    return "; ".join(parts)


def _tree_merged(record: r.TreeMerged) -> str:
    if record.status == "merged":
        return f"the work on {record.branch} was merged into {record.into or 'HEAD'}"
    why = f"conflicts in {listed(record.files)}" if record.files else record.reason
    return f"the work on {record.branch} could not be merged into {record.into or 'HEAD'}: {why}"


def _tree_cleared(record: r.TreeCleared) -> str:
    if record.problem:
        return f"the work tree {record.path} could not be removed: {record.problem}"
    return f"the work tree {record.path} was removed" + (f"; the branch {record.branch} stays" if record.kept else "")


def _entries(record: r.MemoryChanged | r.TaskChanged) -> str:
    every = (*record.entries, *record.project)
    return listed(
        quoted(str(one.get("text") or one.get("target_id") or one.get("key") or one.get("id"))) for one in every
    )


def _content(record: r.MessageSent) -> str:
    said = next((value for value in record.content.values() if isinstance(value, str)), "")
    return quoted(said) if said else pairs(record.content)


def _actor_started(record: r.ActorStarted) -> str:
    what = f"{record.kind} {record.name}" if record.kind != "agent" else record.name
    again = f" again (incarnation {record.incarnation})" if record.incarnation > 1 else ""
    where = f" at {record.address}" if record.address else ""
    return f"{what} started{again}{where}" + (f" in {record.process}" if record.process else "")


def _actor_stopped(record: r.ActorStopped) -> str:
    ways = {"normal": "ended normally", "shutdown": "was stopped", "killed": "was cancelled: it did not stop in time"}
    failed = f"; its on_stop failed: {record.error}" if record.error else ""
    return f"{record.name} {ways.get(record.reason, record.reason)}{failed}"


def _actor_crashed(record: r.ActorCrashed) -> str:
    if record.during == "worker":
        return f"{record.name} is gone: {record.error.removeprefix('WorkerLost: ')}"
    at = f" at a message from {record.sender or 'outside'}" if record.message else f" at its {record.during}"
    return f"{record.name} crashed{at}{_because(record.error)}"


def _restart_planned(record: r.RestartPlanned) -> str:
    what = listed(record.names) if record.names else record.name
    after = f" in {duration(record.delay)}" if record.delay else ""
    return f"{record.supervisor} restarts {what}{after} (restart {record.count} of {record.limit} in its window)"


def _supervisor_failed(record: r.SupervisorFailed) -> str:
    limit = f"{plural(record.restarts, 'restart')} in {duration(record.window)} were allowed"
    return f"{record.name} gave up on {record.child}: {limit}{_below(record.reason.splitlines())}"


def _letter_dead(record: r.LetterDead) -> str:
    what = f"a message{f' ({record.type})' if record.type else ''} from {record.sender or 'outside'}"
    were = f"to {record.recipient} {'were' if record.count > 1 else 'was'} not handled: {record.reason}"
    return f"{f'{record.count} messages' if record.count > 1 else what} {were}{_because(record.detail)}"


def _reply_ended(record: r.ReplyEnded) -> str:
    if record.kind:
        return f"the streamed reply of {record.agent} failed ({record.kind}){_because(record.reason)}"
    return f"{record.agent} ended its streamed reply" + (f": {_value(record.payload)}" if record.payload else "")


def _value(payload: Any) -> str:
    return pairs(payload) if isinstance(payload, dict) else quoted(str(payload))


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _cost(usage: r.Usage) -> list[str]:
    return [dollars(usage.cost)] if usage.cost else []


_SENTENCES: dict[type, Callable[[Any], str]] = {
    r.RunStarted: _run_started,
    r.RunOwned: _run_owned,
    r.RunSuspended: lambda x: f"the machine slept for {duration(x.seconds)}",
    r.RunStopped: lambda x: f"the run stopped: {x.reason}",
    r.RunFinished: lambda x: f"the run has {x.outcome}{_because(x.reason)}",
    r.RunReopened: lambda x: f"{_speaker(x, 'an operator')} reopened the run; retried: {listed(x.turns) or 'nothing'}",
    r.TurnStarted: _turn_started,
    r.AttemptLaunched: lambda x: (
        f"attempt {x.attempt} of {x.turn} runs {f'as process {x.pid}' if x.pid else f'elsewhere ({x.handle})'}"
    ),
    r.AttemptQuiet: lambda x: (
        f"{x.turn} has {listed(_MISSING.get(sign, sign) for sign in x.signs)} for {duration(x.seconds)}"
        if x.signs
        else f"{x.turn} shows signs of life again"
    ),
    r.AttemptMisreported: lambda x: (
        f"attempt {x.attempt} of {x.turn} reported a usage that cannot be right ({x.reason}); "
        f"it counts as {dollars(x.usage.cost)}"
    ),
    r.AttemptAdopted: lambda x: f"attempt {x.attempt} of {x.turn} outlived the process that started it",
    r.AttemptFailed: _attempt_failed,
    r.AttemptSession: _attempt_session,
    r.AttemptStep: lambda x: f"{x.turn}: {request_answered(x.n, x.calls)}",
    r.AttemptInterrupted: _attempt_interrupted,
    r.TurnFinished: _turn_finished,
    r.TurnFailed: lambda x: f"{x.turn} failed for good ({x.kind}){_because(x.reason)}",
    r.TurnCancelled: lambda x: f"{x.turn} was cancelled{_because(x.reason)}",
    r.EventEmitted: lambda x: f"{x.turn} emitted {x.event}" + (f" with {quoted(x.payload)}" if x.payload else ""),
    r.EventInvalid: _event_invalid,
    r.GatesDue: lambda x: f"the gates of {x.turn} run before its {x.event or 'answer'} counts",
    r.GateChecked: _gate_checked,
    r.AttentionAsked: _attention_asked,
    r.AttentionAnswered: lambda x: (
        f"{x.id} was answered by {_speaker(x, 'an operator') if x.message else 'its policy'}: {x.answer}"
        + (f", {quoted(x.text)}" if x.text else "")
    ),
    r.OutputsGiven: lambda x: f"{x.turn} gave {pairs(x.outputs)}",
    r.MemoryChanged: lambda x: f"{x.turn or 'an operator'} changed the memory: {_entries(x)}",
    r.TaskChanged: lambda x: f"{x.turn or 'an operator'} changed the tasks: {_entries(x)}",
    r.MessageRefused: lambda x: f"a message{f' for {x.turn}' if x.turn else ''} was refused: {x.reason}",
    r.ActorStarted: _actor_started,
    r.ActorStopped: _actor_stopped,
    r.WorkerAwaited: lambda x: (
        f"{listed(x.names)} cannot start without a worker: {worker_command(x.process)} starts one"
    ),
    r.ActorCrashed: _actor_crashed,
    r.RestartPlanned: _restart_planned,
    r.SupervisorFailed: _supervisor_failed,
    r.LetterDead: _letter_dead,
    r.EvalReported: lambda x: f"{x.agent} reported {x.type}" + (f": {_value(x.payload)}" if x.payload else ""),
    r.CorrectionSent: lambda x: f"{x.evaluator} corrected {x.agent} ({x.kind}){_because(x.reason)}",
    r.CorrectionDropped: lambda x: f"a correction ({x.kind}) of {x.agent} by {x.evaluator} was dropped: {x.problem}",
    r.ReplyPiece: lambda x: f"{x.agent} gave a piece of its reply" + (f": {_value(x.payload)}" if x.payload else ""),
    r.ReplyEnded: _reply_ended,
    r.CallAsked: lambda x: f"the program asks {x.agent}: {x.turn}",
    r.CallDropped: lambda x: f"the program no longer waits for {x.turn}",
    r.StateChanged: lambda x: f"{x.turn} changed what {x.agent} remembers",
    r.ResultRecorded: lambda x: f"the program recorded a result for {x.agent}",
    r.MessageSent: lambda x: f"{x.sender} sent {x.recipient or 'everybody'} a message ({x.type}): {_content(x)}",
    r.PlanReloaded: lambda x: "the run continues with another plan",
    r.OperatorSaid: _operator_said,
    r.LoopExhausted: _loop_exhausted,
    r.SetStarted: _set_started,
    r.ProgramNoted: lambda x: f"noted {quoted(x.text)}",
    r.SleepStarted: lambda x: f"{x.sleep} began, until {iso_time(x.until)}",
    r.SleepEnded: lambda x: f"{x.sleep} ended{' early' if x.early else ''}",
    r.SetEnded: lambda x: (
        f"{x.set} ended{' early' if x.early else ''} with {x.done} result{'s' if x.done != 1 else ''}"
    ),
    r.PathEnded: lambda x: f"the path ended after {x.turn}: {path_end(x.reason, x.found)}",
    r.ConditionUnknown: lambda x: (
        f"after {x.turn}, a condition read {x.agent}.{x.field}, which has no value yet; it counted as false"
    ),
    r.ConfigChanged: _config_changed,
    r.ConfigHeld: _config_held,
    r.ConfigRejected: lambda x: (
        f"the plan could not be read again; the last valid one is kept:{_below(x.reason.splitlines())}"
    ),
    r.ConfigKept: lambda x: f"the plan was read again and is unchanged{_below(x.warnings)}",
    r.EventNoted: lambda x: f"{x.turn} noted {x.event}" + (f" with {quoted(x.payload)}" if x.payload else ""),
    r.GuidanceDelivered: lambda x: (
        f"{x.turn} was given the operator's guidance" + (" while it worked" if x.attempt else "")
    ),
    r.IterationStarted: _iteration,
    r.WaveStarted: lambda x: (
        f"{x.event} of {x.turn} opened wave {x.wave}, of {plural(len(x.objectives), 'branch', 'branches')}"
    ),
    r.WaveTimeout: lambda x: f"wave {x.wave}: {listed(x.turns)} took too long",
    r.WaveJoined: lambda x: f"wave {x.wave} was joined; the loop goes on after {x.event}",
    r.TreeSaved: _tree_saved,
    r.TreeAttested: _tree_attested,
    r.TreesJoined: _trees_joined,
    r.TreeMade: lambda x: f"the work tree of {x.run} was made: {x.path}, on the branch {x.branch}",
    r.TreeMerged: _tree_merged,
    r.TreePrepared: lambda x: (
        f"the work tree of {x.run} {'could not be' if x.problem else 'was'} prepared" + _because(x.problem)
    ),
    r.TreeCleared: _tree_cleared,
    r.RunNotified: lambda x: f"notify.command was called: {x.status}" + (f" ({x.problem})" if x.problem else ""),
    r.JournalRepaired: lambda x: f"a torn last line of {plural(x.size, 'byte')} was cut off and kept in {x.file}",
}
