"""`coterie chat` and `coterie thread`: conversations with a team, whose messages are runs."""

import shlex
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.agents.backends.base import AttemptRef, Event, Text
from coterie.history.journal.records import Record
from coterie.interfaces.cli.display import Lines
from coterie.interfaces.cli.loop_options import LoopOptions, home, loop_given
from coterie.interfaces.cli.options import STATE_DIR, AsJson, Backend, LimitOptions, Set, StateDir
from coterie.interfaces.cli.output import at_terminal, complain, fitting_width, print_result, prompt, say, write
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.execution.runs.outcome import Outcome
    from coterie.execution.runs.repository import Runs
    from coterie.execution.runs.threads import Thread
    from coterie.interfaces.cli.watcher import Watch
    from coterie.team.planning.plan import Limits, Plan

Name = Annotated[str, Arg("NAME", "The name of a thread.")]


def chat(
    target: Annotated[str, Arg("TARGET", "An .at or .yaml file, the folder of a loop, or a preset.")],
    thread: Annotated[
        str | None, Opt("--thread NAME", "The thread to continue, or to begin; by default a new one.")
    ] = None,
    params: Set = None,
    backend: Backend = None,
    yes: Annotated[bool, Opt("-y, --yes", "Ask nothing before the first message.")] = False,
    state_dir: Annotated[Path | None, Opt("--state-dir DIR", "Where the runs are kept, as for `run`.")] = None,
    *,
    limits: LimitOptions,
) -> int:
    """Talk to a team: each line is a message, and a run of the thread.

    Answers are shown while they are written, and questions of the team are answered in place. Agents with
    `thread: true` are shown what came before. Ctrl-C interrupts a message, Ctrl-D leaves. A message that did not end,
    also by a kill, is continued by an empty line, or left out by another message. Limits are for one message.

    Exit status: that of the last message, as for `run`.
    """
    from coterie.base.ids import new_run_id
    from coterie.execution.runs.repository import Runs
    from coterie.execution.runs.threads import Thread
    from coterie.interfaces.cli.before import Beginning
    from coterie.interfaces.cli.run import plan_for
    from coterie.interfaces.cli.team_file import is_preset

    said = loop_given(target, LoopOptions(state_dir=state_dir), backend, params or [])
    plan, _ = plan_for(target, said)
    beginning = Beginning(
        asks=at_terminal(),
        as_json=False,
        yes=yes,
        limits=limits.limits(),
        is_recorded=False,
        home=lambda plan: home(plan, state_dir),
        replan=lambda flag, setting: plan_for(target, loop_given(target, LoopOptions(), flag, [setting]))[0],
    )
    plan, _ = beginning.ready(plan, is_preset=is_preset(target))
    runs, name = Runs(home(plan, state_dir)), thread or f"chat-{new_run_id()}"
    conversation = _Conversation(Thread(runs, name), runs, plan, limits.limits())
    complain(f"thread {name}: Ctrl-C interrupts a message, Ctrl-D leaves")
    status = conversation.hold()
    again = shlex.join(["coterie", "chat", target, "--thread", name])
    complain(f"continue with: {again}{'' if state_dir is None else f' --state-dir {shlex.quote(str(state_dir))}'}")
    return status


class _Conversation:
    """A thread at a terminal, or with a message in each line of standard input."""

    def __init__(self, thread: "Thread", runs: "Runs", plan: "Plan", limits: "Limits") -> None:
        self._thread, self._runs, self._plan, self._limits = thread, runs, plan, limits

    def hold(self) -> int:
        """Take messages until the end of the input; return the status of the last one."""
        from coterie.errors import CoterieError, ThreadBusy

        status = 0
        while (line := self._line(open_run := self._open())) is not None:
            try:
                if line.strip():
                    status = self._send(line, open_run)
                elif open_run:
                    status = self._resume(open_run)
            except ThreadBusy as busy:
                complain(f"coterie: not sent: {busy.why}")
                status = 1
            except KeyboardInterrupt:
                complain("coterie: not sent")
                status = 1
            except CoterieError as error:
                complain(f"coterie: {error}")
                status = 1
        return status

    def _open(self) -> str:
        """The latest run of the thread if it has no end and no process drives it; says so."""
        from coterie.history.journal.status import ENDS

        run = next(self._thread.newest(), "")
        if not run or (state := self._runs.status(run)) in ENDS or state == "running":
            return ""
        asked = str(self._runs.first(run).input.get("prompt", ""))
        complain(f"“{' '.join(asked.split()):.60}” has no answer yet ({state}, run {run})")
        complain("an empty line continues it, another message leaves it out")
        return run

    def _line(self, open_run: str) -> str | None:
        """The next message; None at the end of the input."""
        if not at_terminal():
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        import readline

        from coterie.base.waits import mark_shown

        readline.parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one message
        mark_shown()  # nothing takes long while a person writes
        while True:
            try:
                return input("> ")
            except EOFError:
                complain("")
                return None
            except KeyboardInterrupt:
                complain("")

    def _send(self, text: str, open_run: str) -> int:
        from coterie.execution.runs import launch, run_ids
        from coterie.execution.runs.threads import Continues, follow

        after = ""
        if open_run:
            first = self._runs.first(open_run)
            after = first.thread.after if first.thread is not None else ""
        run = run_ids.choose_id(self._plan, self._runs.root)

        def main(watch: "Watch") -> "Coroutine[Any, Any, Outcome]":
            how = {name: value for name, value in watch.drives().items() if name != "observe"}
            start = partial(
                launch.start,
                self._plan,
                {"prompt": text},
                run_id=run,
                state_dir=self._runs.root,
                limits=self._limits,
                tell=complain,
                **how,
            )
            asked = Continues(self._thread.name, after, leaves=open_run, waits_if_driven=True)
            return follow(self._runs, run, self._plan, asked, start, observe=watch.observe, tell=complain)

        return self._shown(main)

    def _resume(self, run: str) -> int:
        from coterie.execution.runs.control import resume

        return self._shown(
            lambda watch: resume(self._runs, run, limits=self._limits, recall=watch.recall, **watch.drives())
        )

    def _shown(self, main: "Callable[[Watch], Coroutine[Any, Any, Outcome]]") -> int:
        """Run *main*, show what it says, and return its status."""
        from coterie.history.views import words
        from coterie.interfaces.cli.signals import drive
        from coterie.interfaces.cli.text import outcomes as text
        from coterie.interfaces.cli.watcher import Watch

        display = _Answers(several=len(self._plan.agents) > 1)
        asks = at_terminal()
        watch = Watch(display, parks=not asks, at_terminal=asks)
        outcome = drive(main(watch), watch.notice)
        result = words.result(outcome.result) if outcome.result else ""
        display.end(result if outcome.status != "failed" else "")
        for notice in outcome.notices:
            complain(notice)
        if outcome.status != "completed":
            complain(text.outcome(outcome, watch.failed, watch.causes))
        return outcome.exit


class _Answers(Lines):
    """Shows what agents write as they write it, and warnings and errors of the run.

    Args:
        several: Whether the name of the agent precedes what it writes.
    """

    def __init__(self, several: bool) -> None:
        super().__init__()
        self._several = several
        self._speaker, self._said = "", ""

    def observe(self, run: str, record: Record) -> None:
        """Show what went wrong."""
        level, line = self.said(run, record)
        if line and level in ("warn", "error"):
            self._break()
            complain(line)

    def on_event(self, ref: AttemptRef, event: Event) -> None:
        """Show a piece of an answer."""
        if not isinstance(event, Text) or event.channel != "answer":
            return
        speaker = f"{ref.turn}.{ref.attempt}"
        if speaker != self._speaker:
            self._break()
            self._speaker, self._said = speaker, ""
            if self._several:
                prompt(f"{ref.turn.rpartition('#')[0]}: ")
        self._said += event.text
        write(event.text)

    def end(self, result: str) -> None:
        """End what was shown; print *result* unless it was shown last."""
        shown = self._said.strip()
        self._break()
        if result and result != shown:
            say(result)

    def _break(self) -> None:
        if self._said and not self._said.endswith("\n"):
            write("\n")
        self._speaker = self._said = ""


def threads(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the threads of this directory: runs, team, last message.

    A run continues one with `coterie run TEAM "…" --thread NAME`.
    """
    from coterie.execution.runs.threads import listed
    from coterie.interfaces.cli.text import runs as text

    found = listed(state_dir)
    print_result(as_json, found, lambda: text.threads(found, fitting_width()))
    return 0


def show(name: Name, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Show the messages of a thread, oldest first, each with its run and its answer."""
    from coterie.execution.runs.threads import messages, named
    from coterie.interfaces.cli.text import runs as text

    found = messages(named(state_dir, name))
    print_result(as_json, found, lambda: text.messages(found))
    return 0


def rm(name: Name, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Forget a thread. Its runs stay: `coterie runs rm` removes them."""
    from coterie.execution.runs.authority import check_operator
    from coterie.execution.runs.threads import named

    check_operator()
    named(state_dir, name).remove()
    print_result(as_json, {"removed": name}, lambda: f"removed {name}; its runs stay")
    return 0
