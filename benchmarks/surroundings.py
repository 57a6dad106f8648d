"""What something costs by what surrounds it: files, processes, names, notes, other runs, earlier turns.

    python benchmarks/surroundings.py [PART …]

Each part is measured at three sizes, in processor time (user and system, children included) since the machine may be
shared, and beside a lower limit of the largest size, such as a bare `scandir`. The last column compares the largest
size with the smallest; of the checks, it is the exponent. Everything is made in a temporary home.
"""

import asyncio
import itertools
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import surroundings  # this module, by the name under which a flow finds the function

import coterie
from coterie.agents.backends import process_table
from coterie.agents.backends.base import Request
from coterie.agents.backends.processes import end_group
from coterie.agents.backends.sandbox.policy import policy_of
from coterie.agents.workspace.notes import EntryFiles, Memory, Tasks
from coterie.base import agent_writes
from coterie.base import files as base_files
from coterie.base.file_fingerprint import SETTLED
from coterie.execution.runs import index
from coterie.execution.runs.repository import location_at
from coterie.execution.runs.rows import RunRows
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, RunFinished, RunStarted, TurnFinished, TurnStarted
from coterie.history.journal.runs import RunReader
from coterie.interfaces.cli import completion
from coterie.team.planning.plan import AgentPlan, Plan

ROUNDS = 5
TURNS = 50
Row = tuple[str, float, float]
"""The size, the value, and its limit; 0: there is none."""


def seconds() -> float:
    """The processor time of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def least(work: Callable[[], object], times: int = 1) -> float:
    """The least processor time of *work* over several rounds, in milliseconds, divided by *times*."""
    found = []
    for _ in range(ROUNDS):
        began = seconds()
        work()
        found.append(seconds() - began)
    return min(found) * 1000 / times


@contextmanager
def home() -> Iterator[Path]:
    """A new folder, which is also the home and the working directory."""
    before, earlier = Path.cwd(), {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME")}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        os.environ |= {"HOME": made, "XDG_STATE_HOME": f"{made}/state"}
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
            for name, value in earlier.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def fill(folder: Path, count: int) -> None:
    """Make *count* empty files in *folder*, and wait until its times count as settled."""
    for number in range(count):
        (folder / f"f{number}.txt").touch()
    settled = time.time_ns() + SETTLED
    while time.time_ns() <= settled:
        time.sleep(0.1)


def fan_out(agents: int) -> str:
    """A team whose first agent is followed by all others but the last, which joins them."""
    names = [f"a{n}" for n in range(agents)]
    defined = "\n".join(f"agent {name} {{ model: any }}" for name in names)
    flow = f"{names[0]} -> [{', '.join(names[1:-1])}] -> {names[-1]}"
    return f"topology t : [pipeline, fan-out] {{\n{defined}\nflow {{ {flow} }}\n}}\n"


def chain(turns: int) -> str:
    """A team whose *turns* follow each other."""
    agents = "\n".join(f"agent a{n} {{ model: any }}" for n in range(turns))
    return f"topology t : [pipeline] {{\n{agents}\nflow {{ {' -> '.join(f'a{n}' for n in range(turns))} }}\n}}\n"


async def step(prompt: str) -> int:
    return len(prompt)


def files() -> Iterator[Row]:
    """A turn of a function in a team whose folder has files; limit: one `scandir`."""
    one = coterie.agent(surroundings.step)
    built = coterie.plan(coterie.flow("chain", [one], [(one >> one).when(one.result == 3).max(TURNS - 1)]))
    for count in (10, 1_000, 100_000):
        with home() as folder:
            fill(folder, count)
            plan = msgspec.structs.replace(built, folder=str(folder))

            def turns(plan: Plan = plan) -> None:
                assert asyncio.run(coterie.run(plan, "tea")).usage.turns == TURNS

            limit = least(lambda folder=folder: sum(1 for _ in os.scandir(folder)))  # type: ignore[misc]
            yield f"{count} files", least(turns, TURNS), limit


def processes() -> Iterator[Row]:
    """The end of an attempt by other processes of the machine; limit: listing `/proc`."""
    for count in (10, 500, 2_000):
        others = [subprocess.Popen(["sleep", "600"], env={"X": "x" * 10_000}) for _ in range(count)]
        try:
            time.sleep(1.1)  # a moment is of the last second

            def end() -> None:
                since = process_table.moment()
                leader = subprocess.Popen(["true"], start_new_session=True)
                leader.wait()
                asyncio.run(end_group(leader.pid, "20261127-000000-abcdef/a#1.1", since=since))

            yield f"{count} processes", least(end), least(lambda: os.listdir("/proc"))
        finally:
            for one in others:
                one.kill()
            for one in others:
                one.wait()


def names() -> Iterator[Row]:
    """The policy of a sandboxed attempt by the names in the home; limit: one `scandir`."""
    for count in (10, 1_000, 30_000):
        with home() as folder:
            (project := folder / "project").mkdir()
            request = Request(run="r", turn="a#1", attempt=1, agent=AgentPlan(name="a", backend="command"), prompt="x")
            env = {"HOME": str(folder), "PATH": os.environ["PATH"]}

            def policy(request: Request = request, env: dict[str, str] = env, project: Path = project) -> None:
                own = project / "own"
                shutil.rmtree(own, ignore_errors=True)
                own.mkdir()
                policy_of(request, env, project, own, ["/bin/echo"])

            policy()  # which makes the folders of caches
            fill(folder, count)
            limit = least(lambda folder=folder: sum(1 for _ in os.scandir(folder)))  # type: ignore[misc]
            yield f"{count} names", least(policy), limit


def notes() -> Iterator[Row]:
    """Memory and tasks as an iteration reads and shows them, by entries of both; limit: opening the two files."""
    for count in (10, 300, 3_000):
        with home() as folder:
            paths = folder / "memory.jsonl", folder / "tasks.jsonl"
            created = "2026-01-01T00:00:00Z"
            for path, kind in zip(paths, ("learning", "task"), strict=True):
                entry = {"type": kind, "text": "x" * 80, "created": created}
                lines = (json.dumps({"id": f"{kind}-{n}", **entry}) for n in range(count))
                path.write_text("".join(f"{line}\n" for line in lines))
            fill(folder, 0)

            def iteration(paths: tuple[Path, Path] = paths) -> None:
                Memory.of(EntryFiles(paths[0])).render(8000)
                Tasks.of(EntryFiles(paths[1])).render(4000)
                Tasks.of(EntryFiles(paths[1])).blocking()

            yield f"{count} entries", least(iteration), least(lambda paths=paths: [one.open().close() for one in paths])  # type: ignore[misc]


def check() -> Iterator[Row]:
    """`topology check` of a chain, in a process of its own, by its agents; limit: `topology validate`."""
    return _checked(chain)


def check_fan_out() -> Iterator[Row]:
    """The same of a fan-out."""
    return _checked(fan_out)


def _checked(team: Callable[[int], str]) -> Iterator[Row]:
    for count in (500, 1_000, 3_000):
        with home() as folder:
            (folder / "t.at").write_text(team(count))

            def timed(*words: str) -> float:
                began = seconds()
                subprocess.run([sys.executable, "-m", "coterie", *words], check=True, stdout=subprocess.DEVNULL)
                return (seconds() - began) * 1000

            yield f"{count} agents", timed("topology", "check", "t.at"), timed("validate", "t.at")


class _Counted(JsonlStore):
    """A store that counts how often it is asked for a child run."""

    asked = 0

    def has(self, run: str) -> bool:
        _Counted.asked += 1
        return super().has(run)


def watch() -> Iterator[Row]:
    """Questions for child runs per record that a follower hears, by the turns so far; limit: two for each turn."""
    for count in (30, 100, 300):
        with home() as folder:
            asyncio.run(_follow(folder, count))
            yield f"{count} turns", _Counted.asked / (2 * count), 1.0


async def _follow(folder: Path, count: int) -> None:
    store, _Counted.asked = _Counted(folder), 0
    owner = store.claim("r")
    news = RunReader(store).follow("r")
    records: list[Record] = [RunStarted(seq=1, run="r", engine="flow")]
    for n in range(count):
        records.append(TurnStarted(seq=2 * n + 2, turn=f"a#{n}", agent="a"))
        records.append(TurnFinished(seq=2 * n + 3, turn=f"a#{n}", attempt=1))
    for record in records:
        owner.append([record])
        await owner.durable(record.seq)
        await anext(news)
    await owner.close()
    await news.aclose()


def page() -> Iterator[Row]:
    """Memory, in kB, that the list of runs keeps after runs came, were shown and were deleted, by these runs."""
    for count in (10, 30, 100):
        with home() as folder:
            rows, state_dir = RunRows(location_at(folder / ".coterie")), folder / ".coterie"
            _shown(rows, state_dir, 3)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            _shown(rows, state_dir, count)
            kept = (tracemalloc.get_traced_memory()[0] - before) / 1000
            tracemalloc.stop()
            yield f"{count} runs", kept, 0.0


def _shown(rows: RunRows, state_dir: Path, count: int) -> None:
    for n in range(count):
        folder = _run(JsonlStore(state_dir), f"r{n}")
        rows.details([one.key for one in rows.listing()])
        shutil.rmtree(folder)
    rows.listing()


def _run(store: JsonlStore, run: str) -> Path:
    """A run of 20 turns that has ended."""
    writer = store.claim(run)
    records: list[Record] = [RunStarted(seq=1, run=run, engine="flow")]
    for n in range(20):
        records.append(TurnStarted(seq=2 * n + 2, turn=f"a#{n}", agent="a"))
        records.append(TurnFinished(seq=2 * n + 3, turn=f"a#{n}", attempt=1))
    records.append(RunFinished(seq=42, outcome="completed"))
    writer.append(records)
    writer.sync()
    writer.give_up()
    writer.lock.release()
    return store.folder(run)


def confined() -> Iterator[Row]:
    """What is noted of a confined attempt, and whether it wrote a file, by earlier ones; limit: reading the notes."""
    for count in (10, 300, 3_000):
        with home() as folder:
            (file := folder / "program").touch()

            turns = (folder / f"state/runs/r/turns/a#{number}.1" for number in itertools.count())

            def attempt(folder: Path = folder, file: Path = file, turns: Iterator[Path] = turns) -> None:
                (own := (turn := next(turns)) / "own").mkdir(parents=True)
                with agent_writes.noted(turn, [folder, own], {}):
                    assert agent_writes.writer_of(file) == ""
                own.rmdir()

            for _ in range(count):
                attempt()
            kept = base_files.user_state() / agent_writes.FILE
            yield f"{count} attempts", least(attempt, 1), least(lambda kept=kept: kept.read_bytes())  # type: ignore[misc]


def tab() -> Iterator[Row]:
    """The runs that Tab offers, by the runs of the directory; limit: listing their folder."""
    for count in (200, 2_000, 20_000):
        with home() as folder:
            state_dir = folder / ".coterie"
            first = _run(JsonlStore(state_dir), "r")
            journal = (first / "journal.jsonl").read_bytes()
            for n in range(count):
                place = first.with_name(f"r{n:06}")
                place.mkdir()
                (place / "journal.jsonl").write_bytes(journal)
                index.add(index.Entry(run=place.name, folder=str(place), started=float(n), cwd=str(folder)))

            def offered(count: int = count) -> None:
                assert sum(1 for _ in completion.candidates(["resume", ""])) == count + 2

            yield f"{count} runs", least(offered), least(lambda first=first: os.listdir(first.parent))  # type: ignore[misc]


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    one.__name__: one for one in (files, processes, names, notes, confined, check, check_fan_out, watch, page, tab)
}


def main(chosen: list[str]) -> None:
    """Print the rows of the *chosen* parts, by default of all."""
    for name in chosen or PARTS:
        rows = list(PARTS[name]())
        sizes = [int(size.split()[0]) for size, _, _ in rows]
        first, last = rows[0][1], rows[-1][1]
        grown = last / first if first else math.inf
        told = (
            f"exponent {math.log(grown) / math.log(sizes[-1] / sizes[0]):.2f}"
            if name in ("check", "check_fan_out")
            else f"{grown:.2f}"
        )
        print(f"{name}: {(PARTS[name].__doc__ or '').strip()}")
        for size, value, limit in rows:
            print(f"  {size:>16}  {value:10.3f}  limit {limit:10.3f}")
        print(f"  largest beside smallest: {told}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
