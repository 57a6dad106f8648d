"""Random loops, flows and patterns whose agents emit, answer, fail and take too long, ended and interrupted at random.

`python random_ends.py FOLDER [RUNS]` plays that many runs and prints a line for each. Every turn of every journal is
compared with that of a run that is given the same replies and never ends, and with the ledger of the agents; where no
operator ended a turn, the whole run is compared with one that was left alone, too.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import preforked
from killed_kinds import KilledRun

from coterie.execution.kinds import kind_of
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, RunFinished
from coterie.testing.oracle import asked, ended, uncrashed

AGENT = r"""#!/bin/sh
# Writes down the beginning and the end of its work; what it does depends on its turn alone.
cat >/dev/null
key="$COTERIE_RUN/$COTERIE_TURN"
echo "began $key $COTERIE_ATTEMPT $$" >>"{here}/ledger"
act=$(sed -n "s|^$COTERIE_TURN ||p" "{here}/acts")
case "$COTERIE_TURN" in iteration#*) act=${act:-"0 task.complete 1 answer"} ;; *) act=${act:-"0 - 0 answer"} ;; esac
set -- $act
sleep "0.$1"
[ "$2" = - ] || "$AUTOLOOP_BIN" emit "$2" >/dev/null 2>&1
sleep "0.$3"
[ "$4" = hang ] && exec sleep 600
[ "$4" = fail ] && { echo "ended $key $COTERIE_ATTEMPT $$" >>"{here}/ledger"; exit 9; }
case "$COTERIE_TURN" in
  checker*) echo '{"approved": true, "issues": []}' ;;
  *) echo "result of $COTERIE_TURN" ;;
esac
echo "ended $key $COTERIE_ATTEMPT $$" >>"{here}/ledger"
"""
LOOP = """
name = "random"
completion = "task.complete"
[[role]]
id = "worker"
emits = ["step.ready", "other.ready", "task.complete"]
prompt = "You work."
[handoff]
"loop.start" = ["worker"]
"step.ready" = ["worker"]
"other.ready" = ["worker"]
"""
KINDS = ("loop", "flow", "pattern")
TARGETS = {"loop": "loop-project", "flow": "random.at", "pattern": "random.pattern.yaml"}


class RandomRun(KilledRun):
    """One random run in a folder.

    Attributes:
        interrupted: How often an operator interrupted it.
    """

    def __init__(self, kind: str, folder: Path, seed: int, chances: int) -> None:
        self.interrupted = 0
        super().__init__(kind, folder, seed)
        self.target, self.random = TARGETS[kind], random.Random(f"{kind} {chances}")

    def files(self, seed: int) -> dict[str, str]:
        """The team and what its agents do, both by *seed*."""
        dice = random.Random(f"{self.kind} {seed}")
        make = {"loop": _loop, "flow": _flow, "pattern": _pattern}[self.kind]
        return {"agent.sh": AGENT, **make(dice)}

    def meddle(self, owner: "subprocess.Popen[str]") -> None:
        """Interrupt the turns that run, now and then; it need not find one."""
        if self.random.random() < 0.4:
            said = preforked.run("control", "interrupt", "last", cwd=self.folder, timeout=300)
            self.interrupted += said.returncode == 0

    def compared(self) -> list[str]:
        """What is wrong with the journals, compared with those of runs that are given the same replies."""
        found, store = list[str](), JsonlStore(self._state())
        for journal in Runs(self._state()).tree(store.list()[0]):
            log = list(journal.records)
            whole = uncrashed(journal.run, journal.plan(), kind_of, log)
            found += [f"{journal.run}: {what}" for what in _differences(log, whole)]
        return found

    def _state(self) -> Path:
        [folder] = [path for name in (".coterie", ".autoloop") if (path := self.folder / name).exists()]
        return folder


def _differences(log: Sequence[Record], whole: Sequence[Record]) -> list[str]:
    mine, other = ended(log), ended(whole)
    found = [
        f"{turn} ended as {mine.get(turn)}, not as {other.get(turn)}"
        for turn in mine | other
        if mine.get(turn) != other.get(turn)
    ]
    if asked(log) != [one for one in asked(whole) if one in asked(log)]:
        found.append(f"it asked {asked(log)} instead of {asked(whole)}")
    ends = [
        # the run that is not ended has what its turns used in one attempt, which the result of a pattern may show
        (end.outcome, (end.result or {}).get("text"), end.reason)
        for end in (log[-1], whole[-1])
        if isinstance(end, RunFinished)
    ]
    return found if len(ends) == 2 and ends[0] == ends[1] else [*found, f"it ended as {ends}"]


def _acts(dice: random.Random, turns: Sequence[str], ends: Sequence[str] = ("answer",)) -> str:
    """What the agents of *turns* do: a pause, no event, a pause, and how they end."""
    return "".join(f"{turn} {dice.randint(0, 4)} - {dice.randint(0, 4)} {dice.choice(ends)}\n" for turn in turns)


def _loop(dice: random.Random) -> dict[str, str]:
    """A loop of some iterations, one of which may fail behind its event or take too long without one."""
    count, acts = dice.randint(2, 5), ""
    odd = dice.randint(1, 2 * count)
    for n in range(1, count + 1):
        event = "task.complete" if n == count else dice.choice(["step.ready", "other.ready"])
        last = "answer"
        if n == odd and n < count:
            event, last = dice.choice([(event, "fail"), ("-", "fail"), ("-", "hang")])
        acts += f"iteration#{n} {dice.randint(0, 4)} {event} {dice.randint(2, 8)} {last}\n"
    slow = any(line.endswith("hang") for line in acts.splitlines())
    settings = (
        "event_loop.max_iterations = 30\nevent_loop.max_failures = 9\nreview.enabled = false\n"
        'backend.kind = "command"\nbackend.command = "{here}/agent.sh"\nbackend.prompt_mode = "stdin"\n'
        f"backend.timeout_ms = {20_000 if slow else 300_000}\n"
    )
    return {"acts": acts, "loop-project/topology.toml": LOOP, "loop-project/autoloops.toml": settings}


def _flow(dice: random.Random) -> dict[str, str]:
    """A chain of single agents and fan-outs; some fail or take too long, and the flow goes on."""
    names, agents, steps, acts = 0, "", list[str](), ""
    for _ in range(dice.randint(2, 4)):
        step = [f"n{names + k}" for k in range(dice.choice([1, 1, 2, 3]))]
        names += len(step)
        for name in step:
            ends = dice.choice(["answer", "answer", "answer", "fail", "hang"])
            acts += _acts(dice, [f"{name}#1"], [ends])
            limit = "timeout: 1s" if ends == "hang" else ""
            policy = "" if ends == "answer" else f"{limit} on-fail: continue"
            agents += f"  agent {name} {{ model: any {policy} }}\n"
        steps.append(f"[{', '.join(step)}]" if len(step) > 1 else step[0])
    agents, steps = f"  agent begin {{ model: any }}\n{agents}  agent end {{ model: any }}\n", ["begin", *steps, "end"]
    flow = (
        'topology random : [pipeline, fan-out] {\n  extensions { coterie { command: ["{here}/agent.sh"] } }\n'
        f"{agents}  flow {{ {' -> '.join(steps)} }}\n}}\n"
    )
    return {"acts": acts + _acts(dice, ["begin#1", "end#1"]), "random.at": flow}


def _pattern(dice: random.Random) -> dict[str, str]:
    """A pipeline, a debate or a cross-check; one voter or checker may fail."""
    kind = dice.choice(["pipeline", "debate", "crosscheck"])
    slots = {
        "pipeline": [f"stage_{k}" for k in range(dice.randint(2, 4))],
        "debate": ["proponent", "opponent", "mediator"],
        "crosscheck": ["primary", "checker_0", "checker_1", "checker_2"],
    }[kind]
    config = {"debate": "{max_rounds: 2, allow_early_termination: false}", "crosscheck": "{quorum: 2}"}.get(kind, "{}")
    acts = "".join(
        _acts(dice, [f"{slot}#1"], ["answer", "fail"] if slot == "checker_2" else ["answer"]) for slot in slots
    )
    filled = "".join(f"    {slot}: a\n" for slot in slots)
    return {
        "acts": acts,
        "random.pattern.yaml": f"pattern:\n  type: {kind}\n  name: random\n  config: {config}\n  slots:\n{filled}"
        'agents:\n  a: {type: command, command: ["{here}/agent.sh"]}\n',
    }


def play(kind: str, folder: Path, seed: int) -> tuple[int, int, list[str]]:
    """Play a run of *kind* alone and ended at random; return how often it was, interrupts, and what is wrong."""
    whole, run = RandomRun(kind, folder / "whole", seed, 0), RandomRun(kind, folder / "ended", seed, seed)
    whole.play(kills=False)
    run.play(kills=True)
    faults = run.compared()
    if kind == "loop" and run.interrupted:  # an operator ends a loop's turn, so its iterations differ
        faults += [f"repeated {one}" for one in run.repeated] + [f"orphan {pid}" for pid in run.orphans()]
    else:
        faults += run.faults(whole.summary())
    return run.kills, run.interrupted, faults


def main(folder: Path, runs: int = 300) -> int:
    """Play *runs* runs and print what is wrong; the exit status is 1 if anything is."""
    kills, interrupts, bad = 0, 0, 0
    for number in range(runs):
        kind, place = KINDS[number % len(KINDS)], folder / f"{number}"
        try:
            killed, interrupted, faults = play(kind, place, number)
        except AssertionError as error:
            killed, interrupted, faults = 0, 0, [f"did not end: {error}"]
        kills, interrupts, bad = kills + killed, interrupts + interrupted, bad + bool(faults)
        print(number, kind, f"{killed} ends", f"{interrupted} interrupts", *faults or ["ok"], sep="; ", flush=True)
        if not faults:
            shutil.rmtree(place)
    print(f"{runs} runs, {kills} ends, {interrupts} interrupts, {bad} runs with faults")
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("HOME", sys.argv[1])
    sys.exit(main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:])))
