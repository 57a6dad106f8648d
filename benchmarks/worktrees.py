"""Work trees of runs beside `git worktree add` and plain git: making one, a turn, a snapshot, and a merge.

Each row has the median of the rounds, in milliseconds, and that of the processor time, processes included, which a busy
machine changes less; the sides take turns in every round. *make* is the tree with the
agents' private repository; *idle turn* is what surrounds a turn that changed nothing, *turn* one that committed a file;
*snapshot* adds one changed file. *First*, *idle turn* and *turn in the checkout* are the same in the user's checkout,
where the first turn makes the private repository.

    python benchmarks/worktrees.py [--files 100 10000 100000] [--rounds 5]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.checkout import Checkout
from coterie.agents.workspace.trees.disposal import remove_files
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.agents.workspace.trees.worktree import WorkTree

IDENTITY = {f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str, env: Mapping[str, str] = MappingProxyType({})) -> None:
    """Call git."""
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=os.environ | IDENTITY | env)


def repository(folder: Path, files: int) -> Path:
    """A repository with that many files, 100 in a folder."""
    git(folder.parent, "init", "--quiet", "-b", "main", str(folder))
    for n in range(files):
        (folder / f"d{n // 100}").mkdir(exist_ok=True)
        (folder / f"d{n // 100}" / f"f{n}.txt").write_text(f"file {n}\n" * 20)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """How long *work* takes, and how much processor time."""
    began, busy = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - began, sum(os.times()[:4]) - busy


def measure(folder: Path, state: Path, n: int, times: dict[str, list[tuple[float, float]]]) -> None:
    """One round on the repository *folder*."""
    origin, plain = require(folder, "the benchmark"), state / f"plain-{n}"
    tree = worktree.new_tree(origin, state, f"run-{n}", prefix="bench", base=origin.commit_of("HEAD"))

    def make() -> WorkTree:
        made = worktree.make(origin, state, tree)
        private.enter(made)
        return made

    def add() -> None:
        git(folder, "worktree", "add", "--quiet", "-b", f"plain-{n}", str(plain))

    for name, work in [("make", make), ("git worktree add", add)][:: 1 if n % 2 else -1]:
        times.setdefault(name, []).append(seconds(work))
    made = worktree.read(state, tree.run)
    assert made is not None

    def turn() -> None:
        private.enter(made)
        private.look(made)

    times.setdefault("idle turn", []).append(seconds(turn))
    (Path(made.path) / "new.txt").write_text(f"{n}\n")
    agent = ("--git-dir", str(private.folder_of(made)), "--work-tree", made.path)
    git(Path(made.path), *agent, "add", "new.txt")
    git(Path(made.path), *agent, "commit", "--quiet", "--message", "work")
    times.setdefault("turn", []).append(seconds(turn))
    own = worktree.repository_of(made)
    assert own is not None
    snapshots = Snapshots(own, state / f"index-{n}")
    snapshots.save(made.run, "a#1", 1)
    (Path(made.path) / "new.txt").write_text(f"{n} again\n")
    times.setdefault("snapshot", []).append(seconds(lambda: snapshots.save(made.run, "a#2", 1)))
    times.setdefault("merge", []).append(seconds(lambda: merge_tree(state, made)))
    (plain / "plain.txt").write_text(f"{n}\n")

    def by_hand() -> None:
        git(plain, "add", "--all")
        git(plain, "commit", "--quiet", "--message", "work")
        git(folder, "merge", "--quiet", "--no-edit", f"plain-{n}")

    times.setdefault("git add, commit, merge", []).append(seconds(by_hand))
    done = worktree.read(state, tree.run)
    assert done is not None
    assert done.status == "merged", done.reason
    times.setdefault("remove", []).append(seconds(lambda: remove_files(state, done)))
    git(folder, "worktree", "remove", "--force", str(plain))


def measure_checkout(folder: Path, state: Path, n: int, times: dict[str, list[tuple[float, float]]]) -> None:
    """One round of turns in the checkout *folder* itself."""
    home = state / f"checkout-{n}"
    checkout = Checkout(home, f"checkout-{n}", f"bench/checkout-{n}")

    def turn(work: Callable[[], object]) -> tuple[float, float]:
        began = seconds(lambda: checkout.enter(folder))
        work()
        ended = seconds(checkout.leave)
        return began[0] + ended[0], began[1] + ended[1]

    def commit() -> None:
        (folder / f"own-{n}.txt").write_text(f"{n}\n")
        agent = ("--git-dir", str(home / private.NAME), "--work-tree", str(folder))
        objects = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(folder / ".git" / "objects")}
        for words in (("add", f"own-{n}.txt"), ("commit", "--quiet", "--message", "work")):
            git(folder, *agent, *words, env=objects)

    for name, work in (("first turn", lambda: None), ("idle turn", lambda: None), ("turn", commit)):
        times.setdefault(f"{name} in the checkout", []).append(turn(work))
    checkout.end()


def main() -> None:
    """Print the medians."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--files", type=int, nargs="+", default=[100, 10_000, 100_000])
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    for files in given.files:
        top = Path(tempfile.mkdtemp(prefix="coterie-bench-"))
        try:
            folder, times = repository(top / "r", files), dict[str, list[tuple[float, float]]]()
            for n in range(given.rounds):
                measure(folder, top / "state", n, times)
                measure_checkout(folder, top / "state", n, times)
            print(f"{files:,} files")
            for name, found in times.items():
                wall, busy = (statistics.median(column) * 1000 for column in zip(*found, strict=True))
                print(f"  {name:24} {wall:8.0f} ms {busy:8.0f} ms busy")
        finally:
            shutil.rmtree(top)


if __name__ == "__main__":
    main()
