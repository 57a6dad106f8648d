"""The actions of the page on runs; each can describe its effect and give the equivalent command."""

import json
import shlex
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from coterie.base import files
from coterie.errors import CoterieError, RunIsFinished, UsageError
from coterie.execution.runs import control, index, messages
from coterie.execution.runs.attention import answer, open_in
from coterie.execution.runs.messages import Verdict
from coterie.history.journal.records import TurnStarted
from coterie.history.journal.status import ENDS
from coterie.interfaces.ui.places import ServedRun

_FROM_INPUT = "import json, sys; from coterie.interfaces.cli.app import main; sys.exit(main(json.load(sys.stdin)))"
"""A program that runs the command in its input: of any length, and its texts are in no list of processes."""
BEGINS_WITHIN = 8.0
"""Seconds to wait for a new process to take over a run; after that its start counts as accepted."""
_SAID = 2000
"""Characters to show of the output of such a process, if it failed."""

REFUSED = "refused"


class ActionResult(Struct, frozen=True, kw_only=True):
    """The result of an action.

    Attributes:
        run: The key of the run that the action created, if any.
    """

    status: str
    detail: str = ""
    command: str = ""
    run: str = ""


class PageAction(Struct, frozen=True, kw_only=True, tag_field="do"):
    """An action on a run.

    Attributes:
        epoch: The number of the owner that the page shows; the action is refused if the owner has changed. None: any.
    """

    ends: ClassVar[bool] = False
    """Whether the action also applies to finished runs."""
    epoch: int | None = None

    @property
    @abstractmethod
    def what(self) -> str:
        """The effect of the action, in a sentence without full stop."""

    @abstractmethod
    def words(self, place: ServedRun) -> list[str]:
        """The words of the equivalent command after `coterie`, without the options that name the place.

        A word that a shell's command would take for an option or for standard input comes after `--`.
        """

    @abstractmethod
    def perform(self, place: ServedRun) -> Verdict:
        """Perform the action."""

    def command(self, place: ServedRun) -> str:
        """The equivalent command line."""
        words = self.words(place)
        at = words.index("--") if "--" in words else len(words)
        piped = "printf %s - | " if words[-1] == "-" else ""  # a text `-` would be standard input
        behind = f" {shlex.join(words[at:])}" if words[at:] else ""
        return f"{piped}coterie {shlex.join(words[:at])}{place.option}{behind}"


def _text(text: str) -> list[str]:
    """The words of *text* as an argument of a command."""
    return ["--", text] if text.startswith("-") and text != "-" else [text]


class AnswerAction(PageAction, frozen=True, kw_only=True, tag="answer"):
    """Answer a request that needs a person: by one of its answers, or a question by a text and outputs.

    Attributes:
        id: The id of the request in `coterie attention`; *since* is the time from which it waits.
        go: Whether to resume the run if no process drives it, so that the answer has an effect.
    """

    id: str
    since: float
    text: str = ""
    outputs: dict[str, Any] | None = None
    go: bool = False

    @property
    def what(self) -> str:
        """What it will do."""
        then = ", and resumes the run if no process drives it" if self.go else ""
        return f"answers {self.id}" + (f" with {self.text!r}" if self.text else "") + then

    def command(self, place: ServedRun) -> str:
        """The equivalent command line, with that which resumes the run."""
        again = f" && {_RESUME.command(place)}" if self.go and not place.runs.is_owned(place.run) else ""
        return super().command(place) + again

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        if self.outputs:
            named = _options("--output", self.outputs)
            return ["control", "respond", place.run, self.id, *named, *_text(self.text)]
        return ["attention", place.run, self.id, *_text(self.text)]

    def perform(self, place: ServedRun) -> Verdict:
        """Answer the request, if it is still open."""
        found = next((one for one in open_in(place.runs, place.run) if one.id == self.id), None)
        if found is None or abs(found.since - self.since) > 0.001:
            return Verdict(status=REFUSED, detail=f"{self.id} is not open any more: it was answered, or asked anew")
        if found.answers and self.text not in found.answers:
            return Verdict(status=REFUSED, detail=f"{self.text!r} is no answer; answers: {', '.join(found.answers)}")
        if not self.outputs:
            verdict = answer(place.runs, place.run, self.id, self.text)
        else:
            verdict = control.answer(place.runs, place.run, self.id, self.text, self.outputs)
        return _RESUME.perform(place) if self.go and verdict.status == "queued" else verdict


class GuideAction(PageAction, frozen=True, kw_only=True, tag="guide"):
    """Give guidance to a turn; without one, to the loop or to the only running turn."""

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
        return ["control", "guide", place.run, *turn, *(["--interrupt"] if self.interrupt else []), *_text(self.text)]

    def perform(self, place: ServedRun) -> Verdict:
        """Send it."""
        if not self.text.strip():
            return Verdict(status=REFUSED, detail="there is no text to guide with")
        return control.guide(place.runs, place.run, self.text, self.turn, interrupt=self.interrupt)


class InterruptAction(PageAction, frozen=True, kw_only=True, tag="interrupt"):
    """Interrupt a turn, or all running turns; no failure is counted."""

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
    """Stop the run, like Ctrl-C in its terminal."""

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
    """Resume the run in a process that outlives this server.

    Attributes:
        retry: Retry the failed turns of a failed run; with *turn* only this one.
        try_now: Retry at once, instead of waiting for a quota.
        max_cost: A new budget in US dollars; *max_turns* likewise.
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
        """Start the process, and wait until it owns the run or has failed."""
        state = place.runs.status(place.run)
        if state == "running":
            return Verdict(status=REFUSED, detail="a process drives it already")
        if state in ENDS and not self.retry:
            return Verdict(status=REFUSED, detail=str(RunIsFinished(place.run, state)))
        return start(place, self.words(place))


_RESUME = ResumeAction()


class ForkAction(PageAction, frozen=True, kw_only=True, tag="fork"):
    """Create a new run that shares the beginning of this one.

    Attributes:
        at: The last record to share; None: as late as possible. With *turn* it is the record before this turn began.
        prompts: Changed prompts, by agent; *models* likewise, where the name `""` means all agents.
        input: Changed values of the input, by name.
        outputs: Changed answers, by turn: values of some of its outputs, or a text.
        go: Whether to start a process that drives the new run.
    """

    ends: ClassVar[bool] = True
    at: int | None = None
    turn: str = ""
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}
    input: dict[str, Any] = {}
    outputs: dict[str, dict[str, Any] | str] = {}
    go: bool = True

    @property
    def what(self) -> str:
        """What it will do."""
        turn = f"the {'answer' if self.turn in self.outputs else 'start'} of {self.turn}"
        where = f"up to {turn}" if self.turn else f"up to record {self.at}" if self.at else "as it is"
        then = "and goes on from there" if self.go else "which `coterie resume` continues"
        return f"makes a new run that shares this one {where}, {then}; this one does not change"

    def words(self, place: ServedRun) -> list[str]:
        """The command."""
        at = self._at(place)
        return [
            *("fork", place.run),
            *([f"--at={at}"] if at is not None else []),
            *_options(
                "--set", {f"{agent}.model" if agent else "model": self.models[agent] for agent in sorted(self.models)}
            ),
            *_options("--set", {f"{agent}.prompt": text for agent, text in self.prompts.items()}),
            *_options("--input", self.input),
            *_options("--output", dict(self._answers())),
            *([] if self.go else ["--no-resume"]),
        ]

    def _answers(self) -> Iterator[tuple[str, Any]]:
        for turn, changed in self.outputs.items():
            if isinstance(changed, str):
                yield turn, changed
            else:
                yield from ((f"{turn}.{name}", value) for name, value in changed.items())

    def perform(self, place: ServedRun) -> Verdict:
        """Create the run as its command does, in its project, and start a process that drives it if wanted."""
        words = msgspec.structs.replace(self, go=False).words(place)
        done = subprocess.run(
            [sys.executable, "-P", "-c", _FROM_INPUT],
            input=json.dumps(_command(place, words)),
            capture_output=True,
            text=True,
            cwd=_project(place),
        )
        said = done.stderr.strip()
        if done.returncode != 0:
            return Verdict(status=REFUSED, detail=said.removeprefix("coterie: "))
        run = done.stdout.split()[-1]
        new = msgspec.structs.replace(place, key=run, run=run)
        verdict = start(new, ["resume", run, "--no-park"]) if self.go else Verdict(status="accepted")
        return ForkVerdict(status=verdict.status, detail="; ".join(filter(None, (said, verdict.detail))), run=run)

    def _at(self, place: ServedRun) -> int | None:
        if not self.turn or self.at is not None or self.turn in self.outputs:
            return self.at  # a changed answer is in the part that is shared
        if "/" in self.turn:
            raise UsageError("a turn of a child run is forked with its root: name a turn of the root run")
        for record in place.runs.read(place.run):
            if isinstance(record, TurnStarted) and record.turn == self.turn:
                return record.seq - 1
        raise UsageError(f"there is no turn {self.turn!r}")


def _options(option: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Each of the named *values* with *option*: a text as it is, others as JSON."""
    for name, value in values.items():
        text = f"={value}" if isinstance(value, str) else f":={msgspec.json.encode(value).decode()}"
        yield from (option, f"{name}{text}")


class ForkVerdict(Verdict, frozen=True, kw_only=True):
    """The verdict on a fork, and the id of the new run."""

    run: str = ""


ANY = AnswerAction | GuideAction | InterruptAction | StopAction | ResumeAction | ForkAction
_processes: list[subprocess.Popen[bytes]] = []
"""The started processes that may have ended; the server waits for each, so that none remains as a zombie."""


def preview(place: ServedRun, action: PageAction) -> dict[str, str]:
    """The effect that *action* would have, and the equivalent command."""
    return {"what": action.what, "command": action.command(place)}


def act(place: ServedRun, action: PageAction, epoch: int) -> ActionResult:
    """Perform *action* on the run at *place*, and return the result.

    It may take seconds, so call it on a thread.

    Args:
        epoch: The number of the run's current owner.
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
    """The refusal of an outdated action: the run has a different owner than the page shows, or has ended."""
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
    before = place.runs.store.status(place.run) if place.runs.has(place.run) else None
    files.write(log, b"")
    with files.open_private(log, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "coterie", *_command(place, words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=_project(place),
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


def _command(place: ServedRun, words: list[str]) -> list[str]:
    """The *words* of a command, and where its runs are."""
    state_dir = ["--state-dir", str(place.runs.root.resolve())] if place.runs.is_here else shlex.split(place.option)
    return [*words, *state_dir]


def _project(place: ServedRun) -> Path | None:
    """The folder of the project of *place*, if it is there."""
    project = index.project_of(place.runs.root)
    return project if project.is_dir() else None
