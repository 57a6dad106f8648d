"""The cost of a message from an agent to its run: the wrapper, `coterie emit` and the verdict, beside `python -c pass`.

    python benchmarks/emits.py [ROUNDS]

The first two are whole processes, measured in turns so that a busy machine affects all alike. The verdict is the time
from putting a message into the inbox to receiving the verdict on it, while 50 agents emit at once, 20 times, to one run
that writes to this disk. The agents are threads of another process, so that no start of an interpreter counts.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS, EMITS = 50, 20
TOPOLOGY = """
name = "speaking"
completion = "task.complete"
[[role]]
id = "speaker"
emits = ["go", "task.complete"]
prompt = "Speak."
"""
SETTINGS = """
event_loop.max_iterations = 1
backend.kind = "command"
backend.command = "{python}"
backend.args = ["{me}", "--speak", "{rounds}"]
backend.prompt_mode = "stdin"
"""
TARGETS = {"wrapper": "at most 2 x", "coterie emit": "at most 3 x"}


def took(*command: str) -> float:
    """Seconds that *command* takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def speak(rounds: int) -> None:
    """What the agent does: measure, and answer with what was found."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    from coterie.agents.backends.agentside import client, delivery

    commands = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "wrapper": (os.environ["AUTOLOOP_BIN"], "emit", "go"),
        "coterie emit": (str(Path(sys.executable).with_name("coterie")), "emit", "go"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(took(*command))
    sys.setswitchinterval(0.0005)  # these threads stand for processes: none waits long for another
    together = Barrier(AGENTS)
    message = {"kind": "emit", "event": "go", **client.sender(os.environ)}

    def one(number: int) -> list[float]:
        found = []
        for n in range(EMITS):
            together.wait()
            began = time.perf_counter()
            status, _ = delivery.send(os.environ[client.RUN_FOLDER], f"{number}-{n}", message)
            found.append(time.perf_counter() - began)
            assert status == delivery.ACCEPTED, status
        return found

    with ThreadPoolExecutor(AGENTS) as pool:
        times["verdict"] = [seconds for found in pool.map(one, range(AGENTS)) for seconds in found]
    Path("times.json").write_text(json.dumps(times))


def main(rounds: int) -> None:
    """Run a loop whose one agent measures, and print what it found."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).resolve()
        (folder / "topology.toml").write_text(TOPOLOGY)
        settings = SETTINGS.format(python=sys.executable, me=Path(__file__).resolve(), rounds=rounds)
        (folder / "autoloops.toml").write_text(settings)
        coterie = Path(sys.executable).with_name("coterie")
        done = subprocess.run([coterie, "run", "."], cwd=folder, check=False, capture_output=True, text=True)
        if not (folder / "times.json").exists():
            sys.exit(done.stdout + done.stderr)
        times: dict[str, list[float]] = json.loads((folder / "times.json").read_text())
    verdicts = sorted(times.pop("verdict"))
    bare = statistics.median(times["python -c pass"])
    for what, found in times.items():
        median = statistics.median(found)
        print(f"{what:20} {median * 1000:7.1f} ms  {median / bare:5.2f} x  {TARGETS.get(what, '')}".rstrip())
    for share, limit in ((0.5, ""), (0.99, "at most 30 ms")):
        value = verdicts[min(len(verdicts) - 1, int(share * len(verdicts)))]
        print(f"verdict, p{share * 100:<10.0f} {value * 1000:7.1f} ms           {limit}".rstrip())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--speak"]:
        speak(int(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
