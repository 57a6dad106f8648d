"""Finds the files that change most, by git's own history: where mistakes are made and where work is worth it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from findings import Finding, Turn, report
from repository import Repository

WINDOW = 1000
"""How many of the last commits count, merges left out."""

SHARE, COMMITS = 0.15, 5
"""A hot file was in at least this share of the commits, and in this many."""

_TEXT = (".md", ".rst", ".txt", ".lock", ".json", ".svg", ".csv", ".toml", ".cfg")


@dataclass(frozen=True)
class History:
    """The last commits: their number, and for each file those that touched it."""

    commits: int
    touched: dict[str, set[str]]
    fixes: set[str]


def history(repository: Repository) -> History | None:
    """The last `WINDOW` commits of *repository*; None without git or commits."""
    log = repository.git(
        "log", f"-n{WINDOW}", "--no-merges", "--no-renames", "--relative", "-z", "--name-only", "--format=%x01%H %s"
    )
    if not log:
        return None
    touched: dict[str, set[str]] = defaultdict(set)
    fixes = set()
    commits = log.split("\x01")[1:]
    for commit in commits:
        head, *files = commit.replace("\n", "\0").split("\0")
        sha, _, subject = head.partition(" ")
        if any(word in subject.lower() for word in ("fix", "bug", "revert", "regression")):
            fixes.add(sha)
        for file in filter(None, files):
            touched[file].add(sha)
    return History(len(commits), touched, fixes)


def find(repository: Repository, past: History) -> Iterator[Finding]:
    """Every file that still exists and changed far more often than most."""
    readers = Counter({file: len(shas) for file, shas in past.touched.items() if not file.endswith(_TEXT)})
    known = set(repository.files)
    for file, commits in readers.most_common():
        if commits < max(COMMITS, SHARE * past.commits):
            break
        lines = len(repository.lines(file)) if file in known else 0
        if lines:
            yield _hot(repository, file, lines, past)


def _hot(repository: Repository, file: str, lines: int, past: History) -> Finding:
    shas = past.touched[file]
    fixes = len(shas & past.fixes)
    return Finding(
        rule="churn.hot",
        severity="medium" if lines > 200 and len(shas) >= 2 * COMMITS else "low",
        file=file,
        line=1,
        claim=f"{len(shas)} of the last {past.commits} commits changed this file of {lines} lines"
        + (f", {fixes} of them to mend something" if fixes else ""),
        quote=repository.quote(file, 1),
        advice="Look here first: what changes together wants to be together, and what changes for two reasons apart.",
        score=round(len(shas) / past.commits * lines**0.5, 2),
        evidence={"commits": len(shas), "head": repository.head},
    )


if __name__ == "__main__":
    repository = Repository(Turn.read().repo)
    past = history(repository)
    if past is None:
        report("churn", [], 0, ["there is no git history here"])
    else:
        report("churn", find(repository, past), len(past.touched))
