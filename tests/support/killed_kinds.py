"""Runs of every kind, killed or stopped at random until they end, against a ledger that their agents write.

`python killed_kinds.py FOLDER [RUNS]` plays that many runs, one kind after the other, and prints a line for each.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import preforked
from until import until

AGENT = r"""#!/bin/sh
# Writes down the beginning and the end of its work, and gives what its turn is there for.
cat >/dev/null
key="$COTERIE_RUN/$COTERIE_TURN"
echo "began $key $COTERIE_ATTEMPT $$" >>"{here}/ledger"
emit() { "$AUTOLOOP_BIN" emit "$@" >/dev/null 2>&1; }
sleep "0.0$((${#key} % 7))"
case "$key" in
  */iteration#1) emit draft.ready ;;
  */iteration#2) emit draft.rejected ;;
  */iteration#3) emit draft.ready ;;
  */iteration#4) emit draft.passed ;;
  */iteration#5) emit task.complete ;;
esac
case "$key" in */iteration#*) sleep "0.$((${#key} % 7))" ;; esac  # it works on after it has emitted
case "$COTERIE_TURN" in
  review#1) echo 'verdict: revise' ;;
  review#*) echo 'verdict: approve' ;;
  checker*) echo '{"approved": true, "issues": []}' ;;
  mediator*) echo 'CONCLUSION: print it' ;;
  *) echo "result of $COTERIE_TURN" ;;
esac
echo "ended $key $COTERIE_ATTEMPT $$" >>"{here}/ledger"
"""
FLOW = """
topology team : [pipeline, fan-out] {
  extensions { coterie { command: ["{here}/agent.sh"] {own} } }
  agent plan { model: any }
  agent left { model: any }
  agent right { model: any }
  agent join { model: any }
  agent review { model: any outputs: { verdict: approve | revise } }
  agent tell { model: any }
  flow {
    plan -> [left, right] -> join -> review
    review -> join [when review.verdict == revise, max 2]
    review -> tell [when review.verdict == approve]
  }
}
"""
OUTER = """
topology outer : [pipeline, fan-out] {
  extensions { coterie { command: ["{here}/agent.sh"] } }
  agent first { model: any }
  agent inner { extensions { coterie { topology: "inner.at" } } }
  agent panel { extensions { coterie { topology: "panel.pattern.yaml" } } }
  agent last { model: any }
  flow { first -> [inner, panel] -> last }
}
"""
PATTERN = """
pattern:
  type: compound
  name: killed
  config: {composition_type: sequential}
  slots:
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
  a: {type: command, command: ["{here}/agent.sh"]}
"""
LOOP = """
name = "killed"
completion = "task.complete"
[[role]]
id = "writer"
emits = ["draft.ready", "task.complete"]
prompt = "You write."
[[role]]
id = "critic"
emits = ["draft.passed", "draft.rejected"]
prompt = "You judge."
[handoff]
"loop.start" = ["writer"]
"draft.ready" = ["critic"]
"draft.rejected" = ["writer"]
"draft.passed" = ["writer"]
"""
LOOP_SETTINGS = """
event_loop.max_iterations = 9
backend.kind = "command"
backend.command = "{here}/agent.sh"
backend.prompt_mode = "stdin"
review.enabled = false
"""
SYSTEM = """
supervision:
  name: root
  backoff_base: 0.01
  children:
    - agent: {name: desk, type: desk.Desk}
    - command: {name: stamp, argv: ["{here}/agent.sh"]}
    - flow: {name: team, source: inner.at}
    - flow: {name: panel, source: outer.at}
entry: desk
"""
DESK = '''
from coterie import AgentProcess


class Desk(AgentProcess):
    """Asks the same child twice and others once, one after the other."""

    async def handle(self, message):
        found = []
        for name in ("stamp", "team", "stamp", "panel", "stamp"):
            reply = await self.ask(name, f"{len(found)} {message.payload}", timeout=None)
            found.append(name)
        return self.reply(" ".join(found))
'''
KINDS = ("flow", "loop", "pattern", "system", "nested", "adopt")
TARGETS = {
    "flow": "inner.at",
    "adopt": "adopt.at",
    "nested": "outer.at",
    "pattern": "panel.pattern.yaml",
    "loop": "loop-project",
    "system": "topology.yaml",
}
OWNERS = 40
"""Owners of one run, of which all but the last are killed or stopped."""
ENDINGS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
"""What ends an owner at a random moment; to a system the other two are its normal end."""


class KilledRun:
    """One run in a folder of its own.

    Attributes:
        kills: How many owners were killed.
        repeated: Turns that began again although their end was durable.
        orphans: Agents that outlived the run.
    """

    def __init__(self, kind: str, folder: Path, seed: int) -> None:
        self.kind, self.folder, self.random = kind, folder, random.Random(f"{kind} {seed}")
        self.kills = 0
        self.repeated: list[str] = []
        folder.mkdir(parents=True)
        self.target = TARGETS.get(kind, "")
        for name, text in self.files(seed).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text.replace("{here}", str(folder)))
        (folder / "agent.sh").chmod(0o755)
        (folder / "ledger").touch()

    def files(self, seed: int) -> dict[str, str]:
        """What is in the folder, by name."""
        adopt = "on-interrupt: adopt"
        return {
            "agent.sh": AGENT,
            "inner.at": FLOW.replace("{own}", ""),
            "adopt.at": FLOW.replace("{own}", adopt),
            "outer.at": OUTER,
            "panel.pattern.yaml": PATTERN,
            "topology.yaml": SYSTEM,
            "desk.py": DESK,
            "loop-project/topology.toml": LOOP,
            "loop-project/autoloops.toml": LOOP_SETTINGS,
        }

    def play(self, *, kills: bool) -> None:
        """Run it to its end."""
        words: tuple[str, ...] = ("run", self.target, "go")
        for number in range(OWNERS):
            if kills and number < OWNERS - 1:
                if not self._is_killed(*words):
                    return
                self.kills += 1
                if self._began():
                    words = ("resume", "last")
                continue
            before, at = self.finished(), len(self.ledger())
            ended = preforked.run(*words, "--json", cwd=self.folder, timeout=600)
            self._count(before, at)
            if "has completed" not in ended.stderr + ended.stdout:
                assert ended.returncode == 0, (words, ended.returncode, ended.stdout[-2000:], ended.stderr[-2000:])
            return

    def _began(self) -> bool:
        return any(one.get("topic") == "run.started" for one in self.records())

    def _is_killed(self, *words: str) -> bool:
        """Start an owner, and kill it at a random append or commit, or end it at some moment; whether it ended so."""
        before, at = self.finished(), len(self.ledger())
        where = self.random.choice(["append", "append", "sync", "begin", "moment"])
        edge = self._cut_off_twice()
        where = "moment" if edge else where
        place = "" if where == "moment" else f"{where}:{self.random.randint(1, 30 if where == 'append' else 12)}"
        known = len(self.records())
        owner = preforked.start_quietly(*words, cwd=self.folder, kill=place)
        if where == "moment":
            until(lambda: len(self.records()) > known or owner.poll() is not None)
            time.sleep(self.random.uniform(0.0, 1.5))  # the moment of the kill is what is tried
            self.meddle(owner)
            while edge & self._cut_off_twice() and owner.poll() is None:
                time.sleep(0.05)
            owner.send_signal(self.random.choice(ENDINGS[: 1 if self.kind == "system" else None]))
        try:
            status = owner.wait(300)
        except subprocess.TimeoutExpired:
            owner.kill()
            raise
        self._count(before, at)
        ends = {130, *(-sign for sign in ENDINGS)}  # 130: it stopped its run; else it had no handler yet, or no more
        assert status in {0, 1, *ends}, (words, place, status)
        if status == 1:  # it completed before its owner was killed
            outcomes = [one["outcome"] for one in self.records() if one.get("topic") == "run.finished"]
            assert "completed" in outcomes, (words, place, outcomes)
        return status in ends

    def meddle(self, owner: "subprocess.Popen[str]") -> None:
        """Do something to the run before its *owner* is ended at a random moment."""

    def _cut_off_twice(self) -> set[str]:
        """The turns that would fail if this owner were killed during them, too."""
        attempts = dict[str, int]()
        for one in self.records():
            turn = f"{one['run']}/{one.get('turn')}"
            if one.get("topic") == "turn.started":
                attempts[turn] = one.get("attempt", 1)
            elif one.get("topic") in ("turn.finished", "turn.failed", "turn.cancelled"):
                attempts.pop(turn, None)
        return {turn for turn, attempt in attempts.items() if attempt > 1}

    def _count(self, before: Counter[str], at: int) -> None:
        began = {line.split()[1] for line in self.ledger()[at:] if line.startswith("began ")}
        self.repeated += sorted(began & set(before))

    def ledger(self) -> list[str]:
        return (self.folder / "ledger").read_text().splitlines()

    def _journals(self) -> list[Path]:
        return sorted(self.folder.rglob("journal.jsonl"))

    def records(self) -> list[dict[str, Any]]:
        """Those of all journals, each with its run."""
        found = []
        for path in self._journals():
            run = ""
            for line in path.read_bytes().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                run = record["run"] if record.get("topic") == "run.started" else run
                found.append(record | {"run": run})
        return found

    def finished(self) -> Counter[str]:
        """How often the end of each turn is in a journal."""
        return Counter(f"{one['run']}/{one['turn']}" for one in self.records() if one.get("topic") == "turn.finished")

    def summary(self) -> dict[str, Any]:
        """What an unkilled run of the same kind has, too: its turns without the name of the run, and its results."""
        records = self.records()
        root = min((one["run"] for one in records if one["run"]), key=len)
        texts = {one["hash"]: one["text"] for one in records if one.get("topic") == "text"}
        events = sorted({f"{one['turn']} {one['event']}" for one in records if one.get("topic") == "event.emitted"})
        finished = sorted(
            (f"{one['run'].removeprefix(root)}/{one['turn']}", str(texts.get(one.get("text"), one.get("text"))))
            for one in records
            if one.get("topic") == "turn.finished"
        )
        ends = [
            (one["run"].removeprefix(root), one["outcome"], str((one.get("result") or {}).get("text")))
            for one in records
            if one["topic"] == "run.finished"
        ]
        return {"finished": finished, "events": events, "ends": sorted(ends)}

    def orphans(self) -> list[str]:
        """Agents of this folder that are alive."""
        found = subprocess.run(["pgrep", "-f", f"{self.folder}/agent.sh"], capture_output=True, text=True, check=False)
        return found.stdout.split()

    def faults(self, whole: dict[str, Any]) -> list[str]:
        """What is wrong with the ended run, compared with one that was not killed."""
        found = [f"repeated {one}" for one in self.repeated]
        found += [f"{turn} finished {n} times" for turn, n in self.finished().items() if n > 1]
        ended = {line.split()[1] for line in self.ledger() if line.startswith("ended ")}
        commands = {line.split()[1] for line in self.ledger()}
        found += [f"{turn} finished without its agent" for turn in self.finished() if turn in commands - ended]
        mine = self.summary()
        found += [f"{what}: {mine[what]} instead of {whole[what]}" for what in whole if mine[what] != whole[what]]
        found += [f"orphan {pid}" for pid in self.orphans()]
        return found


def play(kind: str, folder: Path, seed: int) -> tuple[int, list[str]]:
    """Play a run of *kind* unkilled and killed; return the number of kills, and what is wrong."""
    whole, run = KilledRun(kind, folder / "whole", 0), KilledRun(kind, folder / "killed", seed)
    whole.play(kills=False)
    run.play(kills=True)
    return run.kills, run.faults(whole.summary())


def main(folder: Path, runs: int = 200) -> int:
    """Play *runs* runs and print what is wrong; the exit status is 1 if anything is."""
    kills, bad = 0, 0
    for number in range(runs):
        place = folder / f"{number}"
        try:
            killed, faults = play(KINDS[number % len(KINDS)], place, number)
        except AssertionError as error:
            killed, faults = 0, [f"did not end: {error}"]
        kills, bad = kills + killed, bad + bool(faults)
        print(number, KINDS[number % len(KINDS)], f"{killed} kills", *faults or ["ok"], sep="; ", flush=True)
        if not faults:
            shutil.rmtree(place)
    print(f"{runs} runs, {kills} kills, {bad} runs with faults")
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("HOME", sys.argv[1])
    sys.exit(main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:])))
