"""A run as a list of plain sentences, one for each record."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from coterie.journal import records as r
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import from_json
from coterie.views.words import arrow, duration, exited, listed, pairs, path_end, plural, quoted

_SAID = 200
"""Characters of what a failed attempt had said."""


class Line(Struct, frozen=True, kw_only=True):
    """One line of a timeline.

    Attributes:
        seq: The record it tells of.
        seconds: Since the run began.
        text: A sentence, without full stop.
    """

    seq: int
    seconds: float
    topic: str
    text: str


class Timeline:
    """Tells a run's story, record by record.

    Attributes:
        lines: What has happened so far.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._began: float | None = None
        self._attempts: dict[str, float] = {}
        self._limits_cost = False

    def apply(self, record: r.Record) -> None:
        """Take the next record in."""
        if self._began is None:
            self._began = record.at
        topic = str(record.__struct_config__.tag)
        line = Line(seq=record.seq, seconds=record.at - self._began, topic=topic, text=self._say(record))
        self.lines.append(line)

    def _say(self, record: r.Record) -> str:
        match record:
            case r.RunStarted() | r.ConfigChanged():
                self._limits_cost = _limits_cost(record.plan)
            case r.TurnStarted():
                self._attempts[record.turn] = record.at
            case r.TurnFinished():
                began = self._attempts.get(record.turn, record.at)
                said = f"{_turn_finished(record)} ({', '.join([duration(record.at - began), *_cost(record.usage)])})"
                if self._limits_cost and not record.usage.cost:
                    self._limits_cost = False  # said once
                    said += "; warning: it reported no cost, so event_loop.max_cost_usd may have no effect"
                return said
        return sentence(record)


def fold(records: Iterable[r.Record]) -> Timeline:
    """The timeline of *records*, which begin at a run's first."""
    view = Timeline()
    for record in records:
        view.apply(record)
    return view


def sentence(record: r.Record) -> str:
    """What *record* says, by itself, as a sentence without full stop."""
    return _SENTENCES[type(record)](record)


def _limits_cost(plan: str) -> bool:
    """Whether *plan*, as JSON, is a loop with a limit of its cost."""
    try:
        coordination = from_json(plan).coordination
    except ValueError:
        return False
    return isinstance(coordination, LoopPlan) and coordination.max_cost > 0


def _run_started(record: r.RunStarted) -> str:
    asked = record.input.get("prompt")
    what = f"run {record.run}" + (f" of the team {record.topology}" if record.topology else "")
    if record.forked_from is not None:
        what += f", forked from {record.forked_from.run} at record {record.forked_from.seq},"
    return f"{what} began" + (f": {quoted(asked)}" if isinstance(asked, str) and asked else "")


def _run_owned(record: r.RunOwned) -> str:
    limits = {name: value for name in ("max_turns", "max_cost") if (value := getattr(record.limits, name)) is not None}
    how = (
        "a process took over the run"
        if record.epoch == 1
        else f"a process took over the run again (owner {record.epoch})"
    )
    return how + (f", with {pairs(limits)}" if limits else "")


def _run_finished(record: r.RunFinished) -> str:
    return f"the run has {record.outcome}" + (f": {record.reason}" if record.reason else "")


def _turn_started(record: r.TurnStarted) -> str:
    after = f", marked by {listed(record.inputs)}" if record.inputs else ""
    return f"{record.turn} started" + (f" again (attempt {record.attempt})" if record.attempt > 1 else after)


def _attempt_failed(record: r.AttemptFailed) -> str:
    ended = exited(record.exit_code, record.signal)
    kind = [ended] if ended and record.kind == "exit" else list(filter(None, [record.kind, ended]))
    what = f"attempt {record.attempt} of {record.turn} failed ({', '.join([*kind, *_cost(record.usage)])})"
    *_, last = "", *(record.text.rstrip() or record.log.rstrip())[-_SAID:].splitlines()
    said = f"; its last line was {quoted(last, _SAID)}" if last.strip() and last not in record.reason else ""
    return f"{what}: {record.reason}{said}"


def _attempt_launched(record: r.AttemptLaunched) -> str:
    where = f"as process {record.pid}" if record.pid else f"elsewhere ({record.handle})"
    return f"attempt {record.attempt} of {record.turn} runs {where}"


def _attempt_interrupted(record: r.AttemptInterrupted) -> str:
    reasons = {
        "crash": "the process that ran it died",
        "forked": "it belongs to the run that this one was forked from",
        "shortage": "the machine lacked space, descriptors or memory",
    }
    why = reasons.get(record.reason, record.reason)
    return f"attempt {record.attempt} of {record.turn} was cut off: {why}"


def _turn_finished(record: r.TurnFinished) -> str:
    said = pairs(record.outputs) or (quoted(record.text) if record.text else "nothing")
    return f"{record.turn} answered {said}"


def _event_invalid(record: r.EventInvalid) -> str:
    why = record.reason or f"allowed: {listed(record.allowed)}"
    return f"{record.turn} emitted {record.event}, which was not allowed ({why})"


def _operator_said(record: r.OperatorSaid) -> str:
    if record.what == "guide":
        return f"the operator said: {quoted(record.text)}"
    return f"the operator asked to {record.what} {record.turn or 'everything that runs'}"


def _loop_exhausted(record: r.LoopExhausted) -> str:
    spent = f"after {record.turn}, {listed(map(arrow, record.exhausted))} had fired as often as allowed"
    return f"{spent}; {f'went on by {arrow(record.forced)}' if record.forced else 'that path ended'}"


def _config_changed(record: r.ConfigChanged) -> str:
    return "the plan was read again" + (f"; changed: {listed(record.keys)}" if record.keys else "; nothing changed")


def _iteration(record: r.IterationStarted) -> str:
    after = f", after {record.event}" if record.event else ""
    return f"iteration {record.n} began" + (f" for {record.role}" if record.role else "") + after


def _wave_started(record: r.WaveStarted) -> str:
    branches = plural(len(record.objectives), "branch", "branches")
    return f"{record.event} of {record.turn} opened wave {record.wave}, of {branches}"


def _tree_saved(record: r.TreeSaved) -> str:
    if not record.commit:
        return f"the files {record.turn} left could not be kept: {record.problem}"
    return f"the files {record.turn} left are kept as {record.commit[:12]}" + _because(record.problem)


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


def _repaired(record: r.JournalRepaired) -> str:
    return f"a torn last line of {plural(record.size, 'byte')} was cut off and kept in {record.file}"


def _entries(record: r.MemoryChanged | r.TaskChanged) -> str:
    every = (*record.entries, *record.project)
    return listed(
        quoted(str(one.get("text") or one.get("target_id") or one.get("key") or one.get("id"))) for one in every
    )


def _content(record: r.MessageSent) -> str:
    said = next((value for value in record.content.values() if isinstance(value, str)), "")
    return quoted(said) if said else pairs(record.content)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _cost(usage: r.Usage) -> list[str]:
    return [f"${usage.cost:.2f}"] if usage.cost else []


_SENTENCES: dict[type, Callable[[Any], str]] = {
    r.RunStarted: _run_started,
    r.RunOwned: _run_owned,
    r.RunStopped: lambda x: f"the run stopped: {x.reason}",
    r.RunFinished: _run_finished,
    r.TurnStarted: _turn_started,
    r.AttemptLaunched: _attempt_launched,
    r.AttemptAdopted: lambda x: f"attempt {x.attempt} of {x.turn} outlived the process that started it",
    r.AttemptFailed: _attempt_failed,
    r.AttemptInterrupted: _attempt_interrupted,
    r.TurnFinished: _turn_finished,
    r.TurnFailed: lambda x: f"{x.turn} failed for good ({x.kind}){_because(x.reason)}",
    r.TurnCancelled: lambda x: f"{x.turn} was cancelled{_because(x.reason)}",
    r.EventEmitted: lambda x: f"{x.turn} emitted {x.event}" + (f" with {quoted(x.payload)}" if x.payload else ""),
    r.EventInvalid: _event_invalid,
    r.OutputsGiven: lambda x: f"{x.turn} gave {pairs(x.outputs)}",
    r.MemoryChanged: lambda x: f"{x.turn or 'an operator'} changed the memory: {_entries(x)}",
    r.TaskChanged: lambda x: f"{x.turn or 'an operator'} changed the tasks: {_entries(x)}",
    r.MessageRefused: lambda x: f"a message{f' for {x.turn}' if x.turn else ''} was refused: {x.reason}",
    r.CallAsked: lambda x: f"the program asks {x.agent}: {x.turn}",
    r.CallDropped: lambda x: f"the program no longer waits for {x.turn}",
    r.StateChanged: lambda x: f"{x.turn} changed what {x.agent} remembers",
    r.ResultRecorded: lambda x: f"the program recorded a result for {x.agent}",
    r.MessageSent: lambda x: f"{x.sender} sent {x.recipient or 'everybody'} a message ({x.type}): {_content(x)}",
    r.PlanReloaded: lambda x: "the run continues with another plan",
    r.OperatorSaid: _operator_said,
    r.LoopExhausted: _loop_exhausted,
    r.PathEnded: lambda x: f"the path ended after {x.turn}: {path_end(x.reason, x.found)}",
    r.ConditionUnknown: lambda x: (
        f"after {x.turn}, a condition read {x.agent}.{x.field}, which has no value yet; it counted as false"
    ),
    r.ConfigChanged: _config_changed,
    r.ConfigRejected: lambda x: f"the plan could not be read again; the last valid one is kept: {x.reason}",
    r.ConfigKept: lambda x: "the plan was read again and is unchanged",
    r.EventNoted: lambda x: f"{x.turn} noted {x.event}" + (f" with {quoted(x.payload)}" if x.payload else ""),
    r.GuidanceDelivered: lambda x: (
        f"{x.turn} was given the operator's guidance" + (" while it worked" if x.attempt else "")
    ),
    r.IterationStarted: _iteration,
    r.WaveStarted: _wave_started,
    r.WaveTimeout: lambda x: f"wave {x.wave}: {listed(x.turns)} took too long",
    r.WaveJoined: lambda x: f"wave {x.wave} was joined; the loop goes on after {x.event}",
    r.TreeSaved: _tree_saved,
    r.TreesJoined: _trees_joined,
    r.TreeMade: lambda x: f"the work tree of {x.run} was made: {x.path}, on the branch {x.branch}",
    r.TreeMerged: _tree_merged,
    r.TreeCleared: _tree_cleared,
    r.RunNotified: lambda x: f"notify.command was called: {x.status}" + (f" ({x.problem})" if x.problem else ""),
    r.JournalRepaired: _repaired,
}
