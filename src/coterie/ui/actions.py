"""What the page does to runs: each action says what it will do, and which command does the same."""

import shlex
import subprocess
import sys
import time
from abc import abstractmethod
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from coterie import files
from coterie.errors import CoterieError, RunIsFinished, UsageError
from coterie.journal.records import TurnStarted
from coterie.journal.status import ENDS
from coterie.planning.changes import AgentChange, change
from coterie.planning.plan import Plan
from coterie.runs import control, index, messages
from coterie.runs.attention import answer, open_in
from coterie.runs.messages import Verdict
from coterie.ui.places import ServedRun

BEGINS_WITHIN = 8.0
"""Seconds that a process has to take a run over before its start counts as accepted."""
_SAID = 2000
"""Characters of what such a process printed that are shown if it failed."""

REFUSED = "refused"


class ActionResult(Struct, frozen=True, kw_only=True):
    """What came of an action.

    Attributes:
        run: The key of the run that it made, if it made one.
    """

    status: str
    detail: str = ""
    command: str = ""
    run: str = ""


class PageAction(Struct, frozen=True, kw_only=True, tag_field="do"):
    """An action on a run.

    Attributes:
        epoch: The owner that the page shows; refused if it is another one by now. None: any.
    """

    ends: ClassVar[bool] = False
    """Whether it is for runs that are over, too."""
    epoch: int | None = None

    @property
    @abstractmethod
    def what(self) -> str:
        """What it will do, in a sentence without full stop."""

    @abstractmethod
    def words(self, place: ServedRun) -> list[str]:
        """The command that does the same, after `coterie` and without the options that name the place."""

    @abstractmethod
    def perform(self, place: ServedRun) -> Verdict:
        """Do it."""

    def command(self, place: ServedRun) -> str:
        """The command line that does the same."""
        return f"coterie {shlex.join(self.words(place))}{place.option}"


class AnswerAction(PageAction, frozen=True, kw_only=True, tag="answer"):
    """Answer what needs a person: with one of its words, or a question with a text and outputs.

    Attributes:
        id: What `coterie attention` calls it; *since*: from when on it waits.
    """

    id: str
    since: float
    text: str = ""
    outputs: dict[str, Any] | None = None

    @property
    def what(self) -> str:
        """What it will do."""
        return f"answers {self.id}" + (f" with {self.text!r}" if self.text else "")

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        if self.outputs:
            named = [f"{name}:={msgspec.json.encode(value).decode()}" for name, value in self.outputs.items()]
            options = [word for one in named for word in ("--output", one)]
            return ["control", "respond", place.run, self.id, self.text, *options]
        return ["attention", place.run, self.id, self.text]

    def perform(self, place: ServedRun) -> Verdict:
        """Answer it, if it is still open."""
        found = next((one for one in open_in(place.runs, place.run) if one.id == self.id), None)
        if found is None or abs(found.since - self.since) > 0.001:
            return Verdict(status=REFUSED, detail=f"{self.id} is not open any more: it was answered, or asked anew")
        if found.answers and self.text not in found.answers:
            return Verdict(status=REFUSED, detail=f"{self.text!r} is no answer; answers: {', '.join(found.answers)}")
        if not self.outputs:
            return answer(place.runs, place.run, self.id, self.text)
        return control.answer(place.runs, place.run, self.id, self.text, self.outputs)


class GuideAction(PageAction, frozen=True, kw_only=True, tag="guide"):
    """Give guidance to a turn; empty: the loop, or the only turn that runs."""

    text: str
    turn: str = ""
    interrupt: bool = False

    @property
    def what(self) -> str:
        """What it will do."""
        then = ", and interrupts its attempt" if self.interrupt else ""
        return f"guides {self.turn or 'the run'}: at once if its agent can take it, else in its next attempt{then}"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        turn = [self.turn] if self.turn else []
        return ["control", "guide", place.run, *turn, self.text, *(["--interrupt"] if self.interrupt else [])]

    def perform(self, place: ServedRun) -> Verdict:
        """Send it."""
        if not self.text.strip():
            return Verdict(status=REFUSED, detail="there is no text to guide with")
        return control.guide(place.runs, place.run, self.text, self.turn, interrupt=self.interrupt)


class InterruptAction(PageAction, frozen=True, kw_only=True, tag="interrupt"):
    """Interrupt a turn, or all that run; no failure is counted."""

    turn: str = ""

    @property
    def what(self) -> str:
        """What it will do."""
        return f"interrupts {self.turn or 'all turns that run'}; no failure is counted, and the turn is tried again"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        return ["control", "interrupt", place.run, *([self.turn] if self.turn else [])]

    def perform(self, place: ServedRun) -> Verdict:
        """Send it."""
        return control.send(place.runs, place.run, messages.interruption(self.turn))


class StopAction(PageAction, frozen=True, kw_only=True, tag="stop"):
    """Stop the run as Ctrl-C does where it runs."""

    @property
    def what(self) -> str:
        """What it will do."""
        return "interrupts what runs, and stops the run; it can be resumed"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        return ["control", "stop", place.run]

    def perform(self, place: ServedRun) -> Verdict:
        """Send it."""
        return control.stop(place.runs, place.run)


class ResumeAction(PageAction, frozen=True, kw_only=True, tag="resume"):
    """Carry the run on, in a process that outlives this server.

    Attributes:
        retry: Try what failed again, of a run that has failed; *turn*: this one only.
        try_now: Try what waits for a quota at once.
        max_cost: Another budget, in US dollars; *max_turns* likewise.
    """

    ends: ClassVar[bool] = True
    retry: bool = False
    turn: str = ""
    try_now: bool = False
    max_cost: float | None = None
    max_turns: int | None = None

    @property
    def what(self) -> str:
        """What it will do."""
        again = f"tries {self.turn or 'what failed'} again and goes on"
        begin = again if self.retry else "goes on from the end of the journal"
        return f"{begin}, in a process that does not depend on this page; finished turns are not repeated"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        return [
            *("resume", place.run, "--no-park"),
            *(["--retry", self.turn][: 1 + bool(self.turn)] if self.retry else []),
            *(["--try-now"] if self.try_now else []),
            *([f"--max-cost={self.max_cost:g}"] if self.max_cost is not None else []),
            *([f"--max-turns={self.max_turns}"] if self.max_turns is not None else []),
        ]

    def perform(self, place: ServedRun) -> Verdict:
        """Start the process, and wait until it has the run or has failed."""
        state = place.runs.status(place.run)
        if state == "running":
            return Verdict(status=REFUSED, detail="a process drives it already")
        if state in ENDS and not self.retry:
            return Verdict(status=REFUSED, detail=str(RunIsFinished(place.run, state)))
        return start(place, self.words(place))


class ForkAction(PageAction, frozen=True, kw_only=True, tag="fork"):
    """Make a new run that shares the beginning of this one.

    Attributes:
        at: The last record to share; None: as late as possible. *turn*: the record before this turn began.
        prompts: Other prompts, by agent; *models* likewise, and of all agents with the name `""`.
        go: Have a process drive it.
    """

    ends: ClassVar[bool] = True
    at: int | None = None
    turn: str = ""
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}
    go: bool = True

    @property
    def what(self) -> str:
        """What it will do."""
        where = f"up to the start of {self.turn}" if self.turn else f"up to record {self.at}" if self.at else "as it is"
        return f"makes a new run that shares this one {where}, and goes on from there; this one does not change"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        at = self._at(place)
        return [
            *("fork", place.run),
            *([f"--at={at}"] if at is not None else []),
            *(word for agent in self.prompts for word in ("--prompt", f"{agent}=FILE")),
            *(
                word
                for agent, model in self.models.items()
                for word in ("--model", f"{agent}={model}" if agent else model)
            ),
        ]

    def perform(self, place: ServedRun) -> Verdict:
        """Make it, and start a process that drives it."""
        wanted = [AgentChange(agent=agent, key="model", value=model) for agent, model in sorted(self.models.items())]
        wanted += [AgentChange(agent=agent, key="prompt", value=text) for agent, text in self.prompts.items()]

        def changed(plan: Plan) -> Plan:
            return change(plan, wanted)

        made = control.fork(place.runs, place.run, at=self._at(place), change=changed, files=True)
        new = msgspec.structs.replace(place, key=made.run, run=made.run)
        verdict = start(new, ["resume", made.run, "--no-park"]) if self.go else Verdict(status="accepted")
        files_at = f"; its files: {made.cwd}" if made.cwd else ""
        detail = f"forked at record {made.seq} as {made.run}{files_at}" + (
            f"; {verdict.detail}" if verdict.detail else ""
        )
        return ForkVerdict(status=verdict.status, detail=detail, run=made.run)

    def _at(self, place: ServedRun) -> int | None:
        if not self.turn or self.at is not None:
            return self.at
        if "/" in self.turn:
            raise UsageError("a turn of a child run is forked with its root: name a turn of the root run")
        for record in place.runs.read(place.run):
            if isinstance(record, TurnStarted) and record.turn == self.turn:
                return record.seq - 1
        raise UsageError(f"there is no turn {self.turn!r}")


class ForkVerdict(Verdict, frozen=True, kw_only=True):
    """The verdict on a fork, and the id of the new run."""

    run: str = ""


ANY = AnswerAction | GuideAction | InterruptAction | StopAction | ResumeAction | ForkAction
_processes: list[subprocess.Popen[bytes]] = []
"""The processes that were started here and may have ended: they are waited for, so that none stays as a zombie."""


def preview(place: ServedRun, action: PageAction) -> dict[str, str]:
    """What *action* would do, and the command that does the same."""
    return {"what": action.what, "command": action.command(place)}


def act(place: ServedRun, action: PageAction, epoch: int) -> ActionResult:
    """Do *action* to the run at *place*, and say what came of it. It may take seconds: call it on a thread.

    Args:
        epoch: The owner that the run has now.
    """
    command = ""
    try:
        command = action.command(place)
        verdict = _refused(place, action, epoch) or action.perform(place)
    except (OSError, CoterieError) as error:
        return ActionResult(status=REFUSED, detail=str(error), command=command)
    run = verdict.run if isinstance(verdict, ForkVerdict) else ""
    return ActionResult(status=verdict.status, detail=verdict.detail, command=command, run=run)


def _refused(place: ServedRun, action: PageAction, now: int) -> Verdict | None:
    """Why the page may not do this any more: the run has another owner than it shows, or is over."""
    if not action.ends and (state := place.runs.status(place.run)) in ENDS:
        return Verdict(status=REFUSED, detail=str(RunIsFinished(place.run, state)))
    if action.epoch is not None and action.epoch != now:
        detail = f"the page shows owner {action.epoch} of the run, and it has owner {now} by now: look again"
        return Verdict(status=REFUSED, detail=detail)
    return None


def start(place: ServedRun, words: list[str]) -> Verdict:
    """Run `coterie` with *words* in a new session, and wait until it drives the run or has ended."""
    _processes[:] = [one for one in _processes if one.poll() is None]
    folder = files.user_state() / "ui"
    files.make_folder(folder)
    name = "".join(c if c.isalnum() or c in "-_#." else "_" for c in place.run)[:100]
    log = folder / f"{name}.log"
    project = index.project_of(place.runs.root)
    state_dir = ["--state-dir", str(place.runs.root.resolve())] if place.runs.is_here else shlex.split(place.option)
    arguments = [sys.executable, "-m", "coterie", *words, *state_dir]
    before = place.runs.store.status(place.run) if place.runs.has(place.run) else None
    files.write(log, b"")
    with files.open_private(log, "ab") as out:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=project if project.is_dir() else None,
            start_new_session=True,
        )
    _processes.append(process)
    until = time.monotonic() + BEGINS_WITHIN
    while time.monotonic() < until:
        if process.poll() is not None:
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-_SAID:]
            after = place.runs.store.status(place.run)
            went_on = process.returncode in (0, 3, 4) or after != before
            return Verdict(status="accepted" if went_on else REFUSED, detail=said)
        if place.runs.is_owned(place.run):
            return Verdict(status="accepted", detail=f"process {process.pid} drives it")
        time.sleep(0.05)
    return Verdict(status="accepted", detail=f"process {process.pid} was started; it prints to {log}")
