"""The files and functions of the package that one more turn, one more iteration, and a resume call.

The turn is in a flow whose agents are `cat`, the iteration in a loop over an unchanged folder: each is the difference
between a shorter and a longer run. A resume is counted from its call to the first turn that it starts. Calls in this
process count, in all threads; nothing is timed.

    python benchmarks/crossings.py [--calls]

Each file is printed with its reason from the table `WHY`. The exit status is 1 if a file has no entry there.
"""

import argparse
import asyncio
import inspect
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

import coterie
from coterie.base import file_fingerprint
from coterie.history.journal import pace
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup

FEW, MORE = 3, 5
"""Turns of the shorter run, and by how many the longer one is longer. A call that is not made each time counts as a
fraction."""
SETTINGS = """
event_loop.max_iterations = 20
backend.kind = "command"
backend.command = "cat"
backend.prompt_mode = "stdin"
review.enabled = false
"""
TOP = Path(coterie.__file__).parent
_COROUTINES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

Calls = Counter[CodeType]
"""How often each function of the package was called."""


WHY = {
    "coterie.agents.backends.needs": "names the backends of coding agents, and what they lack",
    "coterie.agents.backends.attempt": "sets up the files, the environment and the working directory of the agent's process",
    "coterie.agents.backends.base": "names the attempt, so that its processes can be recognized",
    "coterie.agents.backends.agentside.spawner": "knows the marks of processes",
    "coterie.execution.runs.user_observer": "passes records to the observer of the program that runs the team",
    "coterie.agents.backends.spawner_client": "has the process started, and hears of its end",
    "coterie.agents.backends.child": "starts the process and receives its output",
    "coterie.agents.backends.command": "runs the agent's command and makes its result",
    "coterie.agents.backends.detached_command": "decides whether the command is to outlive the owner of the run",
    "coterie.agents.backends.outcome": "decodes the output while it comes, with secrets redacted",
    "coterie.agents.backends.process_table": "looks up the process that was started",
    "coterie.agents.backends.processes": "marks the agent's processes, and makes sure that none is left behind",
    "coterie.agents.backends.reported": "reads the usage that the agent reports",
    "coterie.agents.backends.attempt_timeout": "lets a time-out or an interruption end the attempt",
    "coterie.agents.backends.wrapper": "writes the command by which the agent sends messages to its run",
    "coterie.base.clock": "dates records and limits",
    "coterie.history.engines.versions": "looks up the rules of the version of the engine that began the run",
    "coterie.history.engines.fences": "marks text of agents in a prompt as such",
    "coterie.history.engines.flow.counters": "counts starts against `max`",
    "coterie.history.engines.flow.engine": "decides which agent is next",
    "coterie.history.engines.flow.readiness": "lets a node wait for all that may still reach it",
    "coterie.history.engines.loop.engine": "decides which iteration is next",
    "coterie.history.engines.loop.default_event": "tells the agent which event leads to the end soonest, in its turn file",
    "coterie.history.engines.loop.outcome": "decides whether the turn was that of a team, whose outputs select the event",
    "coterie.history.engines.loop.promise": "looks for the completion promise in the answer",
    "coterie.history.engines.loop.schedule": "compares the limits of the loop and decides whether a review is due",
    "coterie.history.engines.loop.state": "keeps what the next prompt needs of this iteration",
    "coterie.history.engines.replies": "finds the declared outputs in the answer",
    "coterie.base.files": "opens files that other processes may replace, and keeps them private",
    "coterie.base.file_fingerprint": "skips reading the loop's folder again, as no file in it changed",
    "coterie.team.formats.settings_locations": "lists the files of settings, which confined agents must not change",
    "coterie.base.ids": "names the turn, the attempt and their folder",
    "coterie.agents.workspace.trees.checkout": "prepares the private repository of agents in the user's checkout",
    "coterie.agents.workspace.trees.confinement": "asks whether the agent's sandbox shows it another repository",
    "coterie.agents.workspace.trees.visits": "lets no merge into a work tree begin while an agent works there",
    "coterie.base.agent_writes": "asks whether an agent could have written the settings that are read",
    "coterie.history.engines.commands": "names the agent whose role the turn has",
    "coterie.base.program_files": "finds the files that the command executes, which an agent could have written",
    "coterie.base.user_code": "lets code of users raise what ends only itself",
    "coterie.history.journal.codec": "encodes records as lines with a checksum",
    "coterie.history.journal.commits": "writes lines and syncs them",
    "coterie.history.journal.jsonl": "computes the path of a run",
    "coterie.history.journal.lines": "syncs a file, and finds the end of its last whole line",
    "coterie.history.journal.lock": "makes sure that this process still owns the run before it writes",
    "coterie.history.journal.owned": "measures how long the run has been driven",
    "coterie.history.journal.pace": "decides whether the loop or a thread makes a commit, and learns how fast the disk is",
    "coterie.history.journal.records.base": "adds up usage",
    "coterie.history.journal.rules": "checks that records follow each other without a gap",
    "coterie.history.journal.runs": "reads the journal of the resumed run, and the plan in it",
    "coterie.history.journal.syncer": "syncs in a thread, so that other runs go on",
    "coterie.history.journal.texts": "holds the long texts of the records that are read",
    "coterie.history.journal.writer": "orders records and groups them into commits",
    "coterie.team.planning.coordination": "decodes the part of the plan that its kind defines",
    "coterie.team.planning.plan": "decodes the recorded plan",
    "coterie.execution.kernel.approvals": "prepares for answers of people, which this plan does not ask for",
    "coterie.execution.kernel.calling_off": "prepares to end child runs, which the agents of this plan do not have",
    "coterie.execution.kernel.effects": "starts the attempt once its intent is durable",
    "coterie.execution.kernel.attempt_inputs": "judges what the attempt says, and writes it",
    "coterie.execution.kernel.opening": "writes the beginning of the run, or takes it over",
    "coterie.execution.runs.notifications": "looks for channels to people, which these runs do not have",
    "coterie.execution.runs.notify_process": "reads the channels to people from the settings",
    "coterie.history.views.attention": "notices what needs a person",
    "coterie.history.views.recoveries": "is prepared to count the recoveries of a run",
    "coterie.team.options.backends": "is the table of backends, which says what the agent's can do",
    "coterie.execution.runs.local_turns": "asks the backend of the agent for the attempt",
    "coterie.execution.runs.removal": "clears what a removal of runs that was killed has left",
    "coterie.execution.runs.api": "is the function that a program calls",
    "coterie.execution.runs.mutual_waits": "checks that no turn waits for the run that it is a part of",
    "coterie.agents.backends.models.key": "tells that no turn calls the program",
    "coterie.execution.runs.authority": "checks that no attempt of another run resumes this one",
    "coterie.execution.runs.attempt_folders": "keeps the files of the attempt in a folder",
    "coterie.execution.kernel.approver_calls": "lets a program answer what the attempt needs a person for",
    "coterie.execution.kernel.attempts": "holds the task of the attempt and records how it ends",
    "coterie.execution.runs.backend_setup": "checks that each agent has a backend",
    "coterie.execution.kernel.children": "prepares for child runs, which the agents of this plan do not have",
    "coterie.execution.runs.finalizers": "prepares the steps at the end of the run",
    "coterie.execution.runs.sidecars": "gives the actors of a system their records; other runs have none",
    "coterie.execution.kernel.commands": "compares a record with the command that it carries out",
    "coterie.execution.kernel.core": "judges an input, appends its record and passes it to the engine",
    "coterie.execution.runs.messages.doorbell": "lets other processes wake the owner when they send a message",
    "coterie.execution.kernel.driven_run": "holds back effects until their records are durable",
    "coterie.base.shortages": "tells a shortage of the machine from other errors",
    "coterie.execution.kernel.event_queue": "handles events in one order, and runs the tasks that lead to them",
    "coterie.execution.kernel.fold": "keeps the state of turns, which questions are open, and what is left to do",
    "coterie.execution.kernel.plan_secrets": "puts secret values back into the environment of agents",
    "coterie.execution.runs.python_hints": "lets errors of a resume from Python name keywords",
    "coterie.execution.runs.messages.inbox": "starts to receive messages",
    "coterie.execution.runs.index": "finds the run by its name",
    "coterie.execution.kinds": "selects the object for the kind of the plan",
    "coterie.execution.kernel.kind": "forwards to the engine what all kinds do alike",
    "coterie.execution.kinds.flow": "makes the engine of a flow",
    "coterie.execution.kinds.loop": "answers what differs in a loop",
    "coterie.execution.kinds.loop.environment": "tells the agent where memory and tasks are, by variables",
    "coterie.execution.kinds.loop.project": "knows the settings of the loop's folder",
    "coterie.execution.kinds.loop.projection_file": "writes the journal of the earlier system as well",
    "coterie.execution.kinds.loop.prompt": "renders the prompt of the iteration",
    "coterie.execution.kinds.loop.reload": "decides whether to read the loop's folder again",
    "coterie.execution.kinds.loop.waves": "writes the files of waves, of which there are none",
    "coterie.execution.runs.launch": "assembles a run, and passes its durable records to those who write files from them",
    "coterie.execution.kernel.gates": "is prepared to run gates, which the agents of this plan do not have",
    "coterie.execution.runs.note_files": "finds the files of memory and tasks",
    "coterie.base.waits": "names what takes long, so that the terminal can say it",
    "coterie.agents.workspace.notes.collection": "holds the entries of the project and of the run",
    "coterie.agents.workspace.notes.entry_notes": "shows the memory and the tasks that the entries of a run are",
    "coterie.agents.workspace.notes.tasks": "renders open tasks for the prompt, and tells which keep the loop from completing",
    "coterie.execution.kernel.project": "answers what differs in runs that go on for long; this one does not",
    "coterie.execution.kernel.prompts": "renders the prompt of the turn from the results so far",
    "coterie.execution.runs.repository": "addresses the files of a run by its id",
    "coterie.execution.kernel.run_end": "decides whether the run may end or stop now",
    "coterie.execution.kernel.run_tree": "writes into the journals of the run and its child runs, and counts against their limits",
    "coterie.execution.kernel.shell": "carries out effects once their records are durable",
    "coterie.execution.kernel.stall": "decides whether signs of life of the attempt are looked for",
    "coterie.execution.kernel.takeover_records": "decides which attempts of an earlier owner were cut off",
    "coterie.execution.kernel.takeover": "ends what an earlier owner left behind",
    "coterie.execution.kernel.timers": "computes how much time the turn has left",
    "coterie.execution.runs.messages.tokens": "makes the token that proves the agent's messages",
    "coterie.agents.workspace.trees.gitignore": "keeps the state directory out of git",
    "coterie.agents.workspace.trees.workspace": "names the working directory of the turn, and keeps its files when it ends",
    "coterie.agents.workspace.trees.worktree": "looks for a work tree of the run",
    "coterie.execution.kernel.turns": "selects the backend of the agent, and passes an event of the attempt to those who watch",
    "coterie.agents.backends.sandbox.restoring": "restores what git would take commands from, if the attempt changed it",
    "coterie.agents.backends.team_files": "puts the files of the team back, if an attempt whose owner was killed changed them",
    "coterie.history.journal.relocation": "finds the folder of the project, which may have moved with the journal",
    "coterie.agents.backends.secrets": "collects the secrets to redact from the agent's environment",
    "coterie.team.topology.events": "finds the roles that the last event leads to, and the events that they may emit",
    "coterie.team.topology.graph": "looks up the arrows of the agent that answered",
    "coterie.history.views.projected_lines": "writes the form of those lines",
    "coterie.history.views.projection": "translates records into the lines of the earlier system",
}
"""What each file is crossed for, by module."""


@contextmanager
def counted(calls: Calls) -> Iterator[None]:
    """Count in *calls* the functions of the package that are called within, in all threads that start within."""

    prefix = f"{TOP}{os.sep}"

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and not is_resumed(frame):
            calls[code] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None takes it away


def is_resumed(frame: FrameType) -> bool:
    """Whether *frame* is a coroutine or a generator that goes on, rather than a call."""
    code = frame.f_code
    if not code.co_flags & _COROUTINES:
        return False
    return bool(code.co_code[frame.f_lasti + 1] & 3)  # the argument of RESUME: 0 at the beginning of a function


def flow() -> Plan:
    """A chain of agents, each of which is `cat`."""
    names = [f"a{i}" for i in range(FEW + MORE + 1)]
    agents = {name: AgentPlan(name=name, backend="command", argv=("cat",)) for name in names}
    groups = tuple(ArrowGroup(source=a, targets=(b,)) for a, b in pairwise(names))
    return Plan(name="chain", agents=agents, coordination=FlowPlan(mentions=tuple(names), groups=groups))


def loop() -> Plan:
    """A loop whose agent is `cat`, in a folder below the current one."""
    file_fingerprint.SETTLED = 0  # the folder was written just now, and shall count as one that was written long ago
    folder = Path("loop")
    folder.mkdir(exist_ok=True)
    (folder / "autoloops.toml").write_text(SETTINGS)
    return plan_for_a_run(str(folder), LoopGiven())[0]


@contextmanager
def fresh_state() -> Iterator[str]:
    """A new state directory, and a new index of runs."""
    with tempfile.TemporaryDirectory(dir=".") as state:
        os.environ["XDG_STATE_HOME"] = state
        yield state


def run(plan: Plan, turns: int) -> Calls:
    """The calls of a run of *plan* that is stopped after so many turns."""
    calls = Calls()
    with fresh_state() as state, counted(calls):
        asyncio.run(coterie.run(plan, "go", state_dir=state, limits=Limits(max_turns=turns)))
    return calls


def one_more(plan: Plan) -> dict[CodeType, float]:
    """The calls of one more turn of *plan*."""
    run(plan, FEW)  # loads all modules
    shorter, longer = run(plan, FEW), run(plan, FEW + MORE)
    return {code: (count - shorter[code]) / MORE for code, count in longer.items() if count > shorter[code]}


def resume(plan: Plan) -> dict[CodeType, float]:
    """The calls of a resume of *plan*, up to the first turn that it starts."""

    def observe(run: str, record: object) -> None:
        if type(record).__name__ == "TurnStarted":
            sys.setprofile(None)

    calls = Calls()
    for counting in (Calls(), calls):  # the first loads all modules
        with fresh_state() as state:
            asyncio.run(coterie.run(plan, "go", state_dir=state, limits=Limits(max_turns=FEW)))
            with counted(counting):
                again = coterie.resume(state_dir=state, limits=Limits(max_turns=FEW + 1), observe=observe)
                asyncio.run(again)
    return dict(calls)


def module_of(code: CodeType) -> str:
    """The name of the module that *code* is in."""
    return ".".join(Path(code.co_filename).relative_to(TOP.parent).with_suffix("").parts).removesuffix(".__init__")


def show(title: str, crossed: dict[CodeType, float], *, calls: bool) -> set[str]:
    """Print what is *crossed*, and return the modules."""
    modules: dict[str, dict[CodeType, float]] = {}
    for code, count in crossed.items():
        modules.setdefault(module_of(code), {})[code] = count
    print(f"{title}: {len(modules)} files, {len(crossed)} functions, {sum(crossed.values()):.0f} calls")
    for name, functions in sorted(modules.items()):
        print(f"  {sum(functions.values()):6.1f}  {name}: {WHY.get(name, 'NO REASON GIVEN')}")
        for code, count in sorted(functions.items(), key=lambda one: -one[1]) if calls else ():
            print(f"          {count:6.1f}  {code.co_qualname}")
    return set(modules)


def main(words: Sequence[str] | None = None) -> int:
    """Count and print; 1 if a file has no reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help="list the functions of each file as well")
    given = parser.parse_args(words)
    pace.QUICK = float("inf")  # a slow disk makes commits in a thread, which takes other calls
    home, environment = os.getcwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder  # no settings of the user
        try:
            found = show("one more turn of a flow", one_more(flow()), calls=given.calls)
            found |= show("one more iteration of a loop", one_more(loop()), calls=given.calls)
            found |= show("a resume, up to its first turn", resume(flow()), calls=given.calls)
        finally:
            os.chdir(home)
            os.environ.clear()
            os.environ.update(environment)
    for name in sorted(found - WHY.keys()):
        print(f"no reason for {name}")
    for name in sorted(WHY.keys() - found):
        print(f"not crossed any more: {name}")
    return int(bool(found - WHY.keys()))


if __name__ == "__main__":
    sys.exit(main())
