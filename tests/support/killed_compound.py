"""A compound that is killed at every append: `python killed_compound.py FOLDER [STEP]` prints how each resume went.

Each owner is a process of its own, forked from this one so that it need not load everything anew, and dies of SIGKILL
right after its n-th append, wherever that was written: in the journal of the compound or of a team below it. With a
STEP of 2 it dies at every second append only.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import killed
import unsynced

from coterie.agents.backends.base import NO_ABILITIES, Abilities, Answer, AttemptRef, OnEvent, Request, Session, Unknown
from coterie.errors import JournalUnreadable
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.runs import launch
from coterie.history.journal.records import AttemptLaunched, Usage
from coterie.team.formats import read
from coterie.team.planning import plan_or_raise
from coterie.team.planning.plan import AgentPlan

TEAM = """
pattern:
  type: compound
  name: killed
  config: {composition_type: sequential}
  slots:
    panel:
      pattern:
        type: ensemble
        config: {aggregation_method: vote, samples: 2, max_concurrency: 3}
        slots: {ensemble_0: a, ensemble_1: a}
    review:
      pattern:
        type: crosscheck
        config: {max_revisions: 1, quorum: 2}
        slots: {primary: a, checker_0: a, checker_1: a}
    argue:
      pattern:
        type: debate
        config: {max_rounds: 2, allow_early_termination: false}
        slots: {proponent: a, opponent: a, mediator: a}
agents:
  a: {type: scripted}
"""
CALLS = 4 + 1 + 4 + 5
"""Those of the ensemble, the primary's revision, two checks by two, and the debate's."""


class Thinkers:
    """Everybody answers by name and number, once the ledger says that the turn was begun, and that it ended."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        self._write("began", request)
        await asyncio.sleep(0)
        answer = self._answer(request, on_event)
        self._write("ended", request)
        return CompletedSession(Answer(text=answer, usage=Usage(cost=0.01)))

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None: ...

    async def close(self) -> None: ...

    def _write(self, what: str, request: Request) -> None:
        with self._ledger.open("a") as file:
            file.write(f"{what} {request.run}/{request.turn}\n")

    def _answer(self, request: Request, on_event: OnEvent) -> str:
        name, n = request.agent.name, request.turn.rpartition("#")[2]
        if name.startswith("checker"):
            return json.dumps({"approved": n == "2", "issues": [] if n == "2" else [f"{name} is not happy"]})
        return "CONCLUSION: write tests" if name == "mediator" else f"{name} says {n}"


def main(folder: Path, step: int = 1) -> None:
    file = folder / "killed.pattern.yaml"
    file.write_text(TEAM)
    source = read(file)
    assert source.topology is not None, source.diagnostics
    at_every_append(plan_or_raise(source.topology), folder, Thinkers, step)


def at_every_append(plan: Any, folder: Path, cast: type[Thinkers], step: int) -> None:
    """Print what became of *plan*, played by *cast*, not killed, killed after every *step*-th append, at last not."""
    unsynced.apply()
    (folder / "warm").mkdir()
    owner(plan, cast, folder / "warm", 0)  # loads what is loaded late, once for all that are forked
    n = 0
    while True:
        state = folder / f"state-{n}"
        state.mkdir()
        status = in_a_fork(partial(owner, plan, cast, state, n))
        died = os.WIFSIGNALED(status)
        report: dict[str, Any] = {"n": n, "died": died, "exit": 0 if died else os.WEXITSTATUS(status)}
        if died:
            report["before"] = receipts(state)
            report["resumed"] = os.WEXITSTATUS(in_a_fork(partial(resumed, plan, cast, state)))
        result = state / "result.json"
        report["result"] = json.loads(result.read_text()) if result.exists() else None
        ledger = state / "ledger"
        report["ledger"] = ledger.read_text().split("\n")[:-1] if ledger.exists() else []
        report["receipts"] = receipts(state)
        report["emitted"] = emitted(state)
        print(json.dumps(report), flush=True)
        if n and not died:
            return
        n += step


def in_a_fork(work: Any) -> int:
    """The wait status of a process that does *work*."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def owner(plan: Any, cast: type[Thinkers], state: Path, n: int) -> None:
    """Start the run; with *n* above 0 die right after its n-th append."""
    if n:
        killed.arm("append", n)
    given = {"prompt": "Should every module have tests?"}
    thinkers = cast(state / "ledger")
    ended = asyncio.run(launch.start(plan, given, state_dir=state, run_id="r", turns=thinkers))
    (state / "result.json").write_text(json.dumps(ended.result))


def resumed(plan: Any, cast: type[Thinkers], state: Path) -> None:
    """Carry the run on, or start it when nothing of it was on disk yet."""
    with (state / "ledger").open("a") as file:
        file.write("resumed\n")
    thinkers = cast(state / "ledger")
    try:
        ended = asyncio.run(launch.resume("r", state_dir=state, turns=thinkers))
    except JournalUnreadable as error:
        if "never began" not in str(error):
            raise
        (state / "runs" / "r" / "journal.jsonl").unlink()
        owner(plan, cast, state, 0)
        return
    (state / "result.json").write_text(json.dumps(ended.result))


def receipts(state: Path) -> list[str]:
    """The turns whose end is on disk, `run/turn`."""
    found = []
    for path in sorted(state.rglob("journal.jsonl")):
        run = "?"
        for line in path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            run = record.get("run", run) if record.get("topic") == "run.started" else run
            if record.get("topic") == "turn.finished":
                found.append(f"{run}/{record['turn']}")
    return found


def emitted(state: Path) -> list[str]:
    """The events that the root run accepted, `turn event`, in order."""
    journal = state / "runs" / "r" / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_bytes().splitlines()] if journal.exists() else []
    return [f"{one['turn']} {one['event']}" for one in records if one["topic"] == "event.emitted"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
