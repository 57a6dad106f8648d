"""Name the Python file below the working directory that most needs a look: the longest, busiest or most branching one.

Usage: python3 pick.py longest|busiest|branching
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.IfExp, ast.comprehension, ast.match_case)


def sources() -> list[Path]:
    """The Python files, sorted; hidden folders are left out."""
    found = (path.relative_to(Path.cwd()) for path in Path.cwd().rglob("*.py"))
    return sorted(path for path in found if not any(part.startswith(".") for part in path.parts))


def lines(path: Path) -> int:
    """How long *path* is."""
    return len(path.read_text(encoding="utf-8", errors="replace").splitlines())


def branches(path: Path) -> int:
    """How often *path* decides something; nothing is known of what is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return 0
    return sum(isinstance(node, BRANCHES) for node in ast.walk(tree))


def commits() -> Callable[[Path], int]:
    """How many commits touched a file, as far as git knows."""
    log = subprocess.run(["git", "log", "--format=", "--name-only", "--relative"], capture_output=True, text=True)
    counted = Counter(log.stdout.splitlines())
    return lambda path: counted[path.as_posix()]


if __name__ == "__main__":
    sys.stdin.read()
    measure = {"longest": lines, "busiest": commits(), "branching": branches}[sys.argv[1]]
    if not (found := sources()):
        sys.exit("there is no Python file here")
    print(max(found, key=lambda path: (measure(path), -found.index(path))).as_posix())
