"""The time that an editor waits after a keystroke, in a file of some 2,000 lines.

    python benchmarks/editing.py [ROUNDS]

A keystroke changes one letter in the middle of the document; then the diagnostics of the whole file and the completion
at the cursor are computed. Prints the median of each, of both together, and their ratio to a tokenisation of the same
text with a bare regular expression. Everything runs in this process; the server adds some JSON.
"""

import re
import statistics
import sys
import time
from collections.abc import Callable

from lsprotocol.types import Range, TextDocumentContentChangePartial

from coterie.interfaces.lsp.completion import complete
from coterie.interfaces.lsp.diagnostics import findings
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.hover import hover
from coterie.interfaces.lsp.rename import rename

AGENTS = 240
TARGET = 50
_WORD = re.compile(r'\s+|#[^\n]*|"[^"\n]*"|[A-Za-z][\w-]*|\d+|->|[=!<>]=|.')


def team(agents: int) -> str:
    """A team of *agents*, each of six lines and a comment, in a flow with a loop at every fourth."""
    lines = ["topology big : [pipeline] {", '  meta { version: "1.0.0" }']
    for i in range(agents):
        lines += [
            f"  # what worker {i} is for",
            f"  agent worker-{i} {{",
            f"    model: {('opus', 'sonnet', 'haiku')[i % 3]}",
            f'    prompt: "Do the work of step {i}, and do it well"',
            "    tools: [Read, Grep]",
            "    outputs { verdict: approve | revise }",
            "  }",
        ]
    lines.append("  flow {")
    for i in range(agents - 1):
        lines.append(
            f"    worker-{i} -> worker-{i + 1}" + (f' [when worker-{i}.verdict == "approve"]' if i % 4 == 3 else "")
        )
        if i % 4 == 3:
            lines.append(f'    worker-{i} -> worker-{i - 2} [when worker-{i}.verdict == "revise", max 3]')
    return "\n".join([*lines, "  }", "}", ""])


def took(what: Callable[[], object], rounds: int) -> float:
    """The median of the milliseconds that *what* takes."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        what()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main(rounds: int) -> None:
    """Measure and print."""
    text = team(AGENTS)
    document = Document.of(text)
    flow = text.index("worker-120 -> worker-121")
    where = {
        "in a name in the flow": flow + len("worker-120 -> worker-12"),
        "in a field": text.index("model:", text.index("agent worker-120")) + 3,
        "in a comment": text.index("what worker 120"),
    }
    bare = took(lambda: list(_WORD.finditer(text)), rounds)
    print(f"{len(text.splitlines())} lines; a bare tokenisation takes {bare:.1f} ms")
    for place, offset in where.items():
        here = document.text.position(offset)

        def after() -> Document:
            return document.changed([TextDocumentContentChangePartial(Range(here, here), "x")])  # noqa: B023 - called before the next round

        def diagnosed() -> object:
            return findings(after())

        def completed() -> object:
            return complete(after(), offset + 1)  # noqa: B023

        def both() -> object:
            changed = after()
            return complete(changed, offset + 1), findings(changed)  # noqa: B023

        for name, what in (("diagnostics", diagnosed), ("completion", completed), ("both", both)):
            median = took(what, rounds)
            goal = f"  at most {TARGET} ms" if what is both else ""
            print(f"{place:22} {name:12} {median:6.1f} ms {median / bare:6.1f} x{goal}")
    findings(document)
    print(f"{'at rest':22} {'hover':12} {took(lambda: hover(document, flow), rounds):6.1f} ms")
    print(f"{'at rest':22} {'rename':12} {took(lambda: rename(document, flow, 'other'), rounds):6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
