"""A loop of three kinds of coding agents that is killed: `python killed_agents.py FOLDER [STEP]` prints how each ended.

Each owner is forked from this process. At its n-th append the agents are killed, or the owner, or both: only the
agents' own processes, not what they started. An owner that was killed is followed by one that resumes the run. Without
a STEP each of the three is played at every append; with a STEP they take turns at every STEP-th, once an agent works.
"""

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import killed
import unsynced
from killed_compound import in_a_fork, receipts
from programs import program as as_program

from coterie.agents.backends.processes import any_alive
from coterie.agents.backends.sandbox.choice import working
from coterie.errors import JournalUnreadable
from coterie.execution.runs import launch
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptFailed
from coterie.team.planning.loops import plan_folder

FAKES = Path(__file__).parent / "fake_agents"
ROLES = {"planner": ("pi", "pi"), "builder": ("acp", "acp"), "critic": ("claude-sdk", "claude")}
"""The backend of each role, and its fake agent."""
EVENTS = {"planner": "tasks.ready", "builder": "review.ready", "critic": "task.complete"}
WHO = ("agent", "harness", "both")
FIRST_AT_WORK = 6
"""The append after which the first agent works."""
LOOKS = 250
"""How often, every 0.02 s, it is looked whether everything has ended that a run started: for five seconds, and for
longer on a machine that is too busy to look so often."""


def make_loop(folder: Path) -> Path:
    """The folder of the loop."""
    loop = folder / "loop"
    loop.mkdir()
    handoff = ["loop.start", *EVENTS.values()]
    topology = ['name = "killed"', 'completion = "task.complete"']
    for role, (kind, label) in ROLES.items():
        program = loop / label
        program.write_text(as_program((FAKES / f"{label}_agent.py").read_text(), "-S"))
        program.chmod(0o755)
        topology += ["[[role]]", f'id = "{role}"', f'emits = ["{EVENTS[role]}"]', f'prompt_file = "{role}.md"']
        topology += [f'backend_kind = "{kind}"', f'backend_command = "{program}"', "backend_args = []"]
        say = f"echo $COTERIE_TURN.$COTERIE_ATTEMPT >> ledger; coterie emit {EVENTS[role]} done"
        (loop / f"{role}.md").write_text(f"Work.\n\nRUN: {say}\n")
    topology += ["[handoff]", *(f'"{event}" = ["{role}"]' for event, role in zip(handoff, ROLES, strict=False))]
    (loop / "topology.toml").write_text("\n".join(topology))
    (loop / "autoloops.toml").write_text("review.enabled = false\nevent_loop.max_iterations = 12\n")
    return loop


def kill(who: str, loop: Path) -> None:
    """Kill the agents of *loop*, each with its sandbox, this process, or both."""
    if who != "harness":
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if os.fsencode(f"{loop}/") in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
    if who != "agent":
        os.kill(os.getpid(), signal.SIGKILL)


def owner(plan: Any, work: Path, run: str, who: str = "", n: int = 0) -> None:
    """Run *plan*; with *n* above 0, *who* is killed at its n-th append."""
    os.chdir(work)
    if n:
        killed.die = partial(kill, who, work.parent / "loop")
        killed.arm("append", n)
    given = {"prompt": "Write it"}
    ended = asyncio.run(launch.start(plan, given, state_dir=work / "state", run_id=run, cwd=work))
    (work / "outcome").write_text(ended.status)


def resumed(plan: Any, work: Path, run: str) -> None:
    """Resume the run, or start it if nothing of it was on disk yet."""
    os.chdir(work)
    (work / "ledger").open("a").write("resumed\n")
    try:
        ended = asyncio.run(launch.resume(run, state_dir=work / "state"))
    except JournalUnreadable as error:
        if "never began" not in str(error):
            raise
        (work / "state" / "runs" / run / "journal.jsonl").unlink()
        owner(plan, work, run)
        return
    (work / "outcome").write_text(ended.status)


def all_end(run: str) -> bool:
    """Whether everything that *run* started ends in time."""
    for _ in range(LOOKS):
        if not any_alive(f"{run}/", ()):
            return True
        time.sleep(0.02)
    return False


def play(plan: Any, folder: Path, who: str, n: int) -> dict[str, Any]:
    """Report how the run ended in which *who* was killed at the n-th append."""
    work, run = folder / f"{who}-{n}", f"r{os.getpid()}-{who}-{n}"
    work.mkdir()
    status = in_a_fork(partial(owner, plan, work, run, who, n))
    died = os.WIFSIGNALED(status)
    report: dict[str, Any] = {"who": who, "n": n, "died": died, "exit": 0 if died else os.WEXITSTATUS(status)}
    if died:
        if who == "both":  # else the next owner finds them alive
            report["left"] = not all_end(run)
        report["before"] = receipts(work)
        report["exit"] = os.WEXITSTATUS(in_a_fork(partial(resumed, plan, work, run)))
    report["orphans"] = not all_end(run)
    outcome, ledger = work / "outcome", work / "ledger"
    report["outcome"] = outcome.read_text() if outcome.exists() else ""
    report["ledger"] = ledger.read_text().split() if ledger.exists() else []
    report["receipts"] = receipts(work)
    report["failed"] = [one.reason for one in JsonlStore(work / "state").read(run) if isinstance(one, AttemptFailed)]
    return report


def main(folder: Path, step: int = 0) -> None:
    unsynced.apply()
    loop = make_loop(folder)
    plan, found = plan_folder(loop, work_dir=folder, env={"HOME": str(folder)})
    assert plan is not None, [each.render() for each in found]
    working()  # tried and loaded once, for all that are forked
    __import__("claude_agent_sdk")
    __import__("coterie.agents.backends.coding.acp_connection")
    print(json.dumps(play(plan, folder, "", 0)), flush=True)
    for k in count():
        who, n = (WHO[k % 3], FIRST_AT_WORK + k * step) if step else (WHO[k % 3], 1 + k // 3)
        report = play(plan, folder, who, n)
        print(json.dumps(report), flush=True)
        if who != "agent" and not report["died"]:  # there are fewer appends
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
