"""Generate `docs/reference/terminal.md` from runs in a real terminal.

python docs/generate/recording_page.py > docs/reference/terminal.md
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from screen import Screen

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = 100
_WHOLE = COLUMNS - 12
"""Characters of a line that is cut, whatever the length of the duration in it."""
PAGE = """\
# At the terminal

<!-- Written by `python docs/generate/recording_page.py`; a test keeps it fresh. -->

What `coterie run` shows on a terminal, recorded from real runs in 100 columns, without colours; durations, ids and
the folder are replaced. The tree is redrawn while the run goes on: each line has a turn with its state, its duration,
and its answer or, while it runs, the last line that it printed. A turn that has printed nothing for two seconds says
so. If the tree is higher than the terminal, ended and pending nodes are left out; the last tree is complete.
`coterie watch` shows the same of a run that another process drives.

## A flow that waits for a person

The team of the [tutorial](../tutorial.md), `coterie run step5.at "Version 2.0"`, when it has reached the editor:

```text
{question}
```

The answer is typed below the question, first the text, then each output that it lacks. The tree goes on below:

```text
{flow}
```

## A loop

`coterie run examples/jury "Greet the reader"`, whose second role is a [cross-check](../patterns/cross-check.md): each
iteration has its role, the event that led to it and, behind an arrow, the event that it emitted.

```text
{loop}
```

All of this goes to standard error but the result, the line before the last one, which goes to standard output.
"""


@contextmanager
def terminal(folder: Path, *words: str) -> Iterator[Screen]:
    """`coterie` with *words* in a terminal, in a copy of the examples."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    screen = Screen(folder, COLUMNS, *words, environment={"PATH": path, "XDG_STATE_HOME": str(folder / ".state")})
    try:
        yield screen
    finally:
        screen.close()


def flow(folder: Path) -> tuple[str, str]:
    """The screen of a flow when it asks a person, and when it has ended."""
    with terminal(folder / "examples" / "tutorial", "run", "step5.at", "Version 2.0") as screen:
        screen.until("> ")
        question = screen.picture()
        screen.type("Well done")
        screen.until("verdict (approve | reject): ")
        screen.type("approve")
        screen.until("completed: ")
        screen.until("\n")
        return settled(question), settled(screen.picture().removeprefix(question.removesuffix("\n>")).lstrip("\n"))


def loop(folder: Path) -> str:
    """The screen of a loop that has ended."""
    with terminal(folder, "run", "examples/jury", "Greet the reader") as screen:
        screen.until("completed (completion_event): ")
        screen.until("\n")
        return settled(screen.picture())


def settled(shown: str) -> str:
    """*shown* with one duration, and one name for its run; without notices of a slow machine."""
    shown = re.sub(r"\S*/tmp\w{8}\b", "~/project", shown)
    shown = re.sub(r"\b\d+(\.\d)? s\b", "0.1 s", shown)
    shown = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "20261121-190244-cafc6a", shown)
    shown = re.sub(r"\brun [a-z]+-[a-z]+$", "run brief-oak", shown, flags=re.MULTILINE)
    lines = (line for line in shown.split("\n") if not line.startswith("waiting for "))
    return "\n".join(f"{line[:_WHOLE]}…" if line.endswith("…") and len(line) > _WHOLE else line for line in lines)


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns(".coterie", ".autoloop"))
        question, ended = flow(folder)
        return PAGE.format(question=question, flow=ended, loop=loop(folder))


if __name__ == "__main__":
    print(page(), end="")
