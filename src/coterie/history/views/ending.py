"""Why a run does not go on, and the next line to type: one sentence for each end that is not a plain completion.

The page, `coterie inspect` and the last lines of the commands show the same sentence.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from coterie.base.clock import iso_time
from coterie.history.journal import records as r
from coterie.history.views.words import dollars, listed, plural, quoted
from coterie.team.planning.plan import Limits

WHEN_OPEN = " --when-open"
_PRINTED = 200
"""Characters shown of what a gate printed."""


class Ending(Struct, frozen=True, kw_only=True):
    """Why a run does not go on.

    Attributes:
        look: `fail` or `wait`, for the colour and the mark.
        text: The reason, a sentence without full stop.
        how: What *command* does, its heading.
        command: The next line to type.
    """

    look: str
    text: str
    how: str
    command: str


class EndFacts:
    """The facts of the sentence; feed it the records of a root run in order.

    Args:
        outcome: How the run ended, if its records are not at hand: `coterie.execution.runs.outcome.Outcome`.

    Attributes:
        unread: The turns after which no arrow fired because a condition read nothing, each with those outputs.
    """

    def __init__(self, outcome: Any = None) -> None:
        self.state, self.reason, self.by, self.until = "running", "", "", 0.0
        self.limits = Limits()
        self.unread: dict[str, tuple[str, ...]] = {}
        self._lacks: dict[str, dict[str, None]] = {}
        self._gate: r.GateChecked | None = None
        self._iterations = 0
        if outcome is not None:
            self.state, self.reason, self.until = outcome.status, outcome.reason, outcome.until
            self.limits, self._iterations = outcome.limits, outcome.iterations or 0
            self.unread = dict.fromkeys(outcome.unread, outcome.missing)

    def apply(self, record: r.Record) -> None:
        """Apply the next record of the root run."""
        match record:
            case r.ConditionUnknown():
                self._lacks.setdefault(record.turn, {})[f"{record.agent}.{record.field}"] = None
            case r.PathEnded(reason="no_match") if record.turn in self._lacks:
                self.unread[record.turn] = tuple(self._lacks[record.turn])
            case r.RunOwned():
                self.limits = record.limits.after(self.limits)
                self.state, self.reason = "running", ""
            case r.RunStopped():
                self.state, self.reason, self.by, self.until = "stopped", record.reason, record.by, record.until
            case r.RunFinished():
                self.state, self.reason = record.outcome, record.reason
            case r.RunReopened():
                self.state, self.reason = "running", ""
            case r.IterationStarted():
                self._iterations += 1
            case r.GateChecked():
                self._gate = None if record.passed else record

    def ending(
        self,
        run: str,
        *,
        way_on: str = "",
        is_owned: bool = False,
        waiting: Sequence[str] = (),
    ) -> Ending | None:
        """Why *run* does not go on; None: it works, or it completed and every condition read a value.

        Args:
            way_on: How a failed run can be continued; see `coterie.execution.kernel.run_exit.RunExit`.
            waiting: The ids of the open questions of a run that waits.
        """
        match self.state:
            case "running":
                text = "the process that drove it is gone; what it had written is kept, and finished turns stay done"
                return None if is_owned else _resume(run, text, "go on with", look="fail")
            case "stopped":
                return self._stopped(run, waiting)
            case "completed" if self.unread:
                return _unread(run, self.unread)
            case "completed":
                return None
        reason = self.reason
        if reason == r.MERGE_CONFLICT:
            reason = "its work is done and kept on its branch, but it could not be merged"
        how, command = _WAYS_ON.get(way_on, ("look into it with", "inspect RUN"))
        return Ending(look="fail", text=reason, how=how, command=f"coterie {command.replace('RUN', run)}")

    def _stopped(self, run: str, waiting: Sequence[str]) -> Ending:
        limits, reason, failing = self.limits, self.reason, self._failing()
        match reason:
            case r.WAITING if waiting:
                text = f"it waits for a person to answer {listed(waiting)}"
                command = f"coterie attention {run} {shlex.quote(waiting[0])} ANSWER"
                return Ending(look="wait", text=text, how="answer, then resume, with", command=command)
            case r.WAITING:
                return _resume(run, "its questions are answered, and no process goes on with it")
            case "max_turns":
                most = "all turns" if limits.max_turns is None else f"the {plural(limits.max_turns, 'turn')}"
                more = "N" if limits.max_turns is None else limits.max_turns * 2 or 1
                return _resume(
                    run, f"it has begun {most} that --max-turns allows{failing}", option=f" --max-turns {more}"
                )
            case "max_cost":
                most = "the budget" if limits.max_cost is None else f"the {dollars(limits.max_cost)}"
                more = "USD" if limits.max_cost is None else f"{limits.max_cost * 2 or 1:g}"
                return _resume(run, f"it has used {most} of --max-cost{failing}", option=f" --max-cost {more}")
            case "max_iterations":
                text = f"it has begun all {plural(self._iterations, 'iteration')} that its settings allow{failing}"
                return _resume(run, text, option=f" --add-iterations {self._iterations or 'N'}")
            case "max_runtime" | "cost_budget":
                setting = f"event_loop.{'max_runtime' if reason == 'max_runtime' else 'max_cost_usd'}"
                return _resume(run, f"it has reached {setting}{failing}", f"continue with (first raise {setting})")
            case "stalled":
                text = f"its last iterations came to the same result again and again{failing}"
                return _resume(run, text, "continue with (guide it first)")
            case "interrupted":
                who = {"person": "a person", "process": "a signal to its process"}.get(self.by, "an interruption")
                return _resume(run, f"{who} stopped it")
            case _ if reason.startswith("asleep"):
                return _resume(run, f"it is {reason}", "continue it when the sleep ends", WHEN_OPEN)
            case _ if self.until:
                text = f"the quota of its provider is used up until {iso_time(self.until)}"
                return _resume(run, text, "continue it when its quota opens", WHEN_OPEN)
            case _ if reason.startswith("quota until "):  # as older journals have it, without the time as a number
                return _resume(run, f"it waits for the {reason}", option=" --try-now")
            case _ if reason.startswith("shortage: "):
                text = f"the machine ran short: {reason.removeprefix('shortage: ')}"
                return _resume(run, text, "continue with (once resources are available again)")
        return _resume(run, f"it stopped: {reason}")

    def _failing(self) -> str:
        """The gate that last refused the completion of a loop, with the end of what it printed."""
        if self._gate is None:
            return ""
        printed = self._gate.output.strip() or self._gate.reason
        return (
            f"; the gate {quoted(shlex.join(self._gate.argv))} last refused it: {quoted(printed[-_PRINTED:], _PRINTED)}"
        )


def _resume(run: str, text: str, how: str = "continue with", option: str = "", look: str = "wait") -> Ending:
    command = f"coterie resume --when-open {run}" if option == WHEN_OPEN else f"coterie resume {run}{option}"
    return Ending(look=look, text=text, how=how, command=command)


def _unread(run: str, unread: Mapping[str, tuple[str, ...]]) -> Ending:
    turn, names = next(iter(unread.items()))
    named = ", ".join(dict.fromkeys(name for found in unread.values() for name in found))
    outputs = listed(name.partition(".")[2] for name in names)
    return Ending(
        look="fail",
        text=f"the flow ended after {listed(unread)} because its conditions read nothing: no value for {named}",
        how=f"declare the output, as `outputs {{ {outputs}: … }}`, and look at the answer with",
        command=f"coterie inspect {run} output {shlex.quote(turn)}",
    )


_WAYS_ON = {
    "retry": ("retry what failed it with", "resume RUN --retry"),
    "fork": ("begin again before that with", "fork RUN"),
    "merge": ("merge its work with", "worktree merge RUN"),
}
"""What may help a failed run: its heading and the command."""
