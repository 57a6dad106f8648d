"""The cost of reading and checking a team, beside a bare `re` tokenisation of the same text.

Teams of 1,000 and 10,000 agents in two shapes: *mixed* has agents with models, tools, prompts and outputs, humans,
gates, fan-outs, joins and bounded loops; *chain* is one line for each agent and one long flow. The bare side is one
loop over `re.finditer` that makes a tuple of kind, text and offset for each token, and nothing else. Each
figure is the median of several rounds in which both sides take turns, with the garbage collector as it comes.

Then `coterie topology validate` of the example in README.md, as a process, beside `python -c pass`.

    python benchmarks/reading.py
"""

import argparse
import gc
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from coterie.team import formats
from coterie.team.formats.at import lexer

SIZES = (1_000, 10_000)
EXAMPLE = Path(__file__).parent.parent / "examples" / "code-review.at"

TOKEN = re.compile(
    r"""
    (?: \s++ | \#[^\r\n]*+ )*+
    (?: (?P<prompt> (?<=\bprompt\ ) \{ [^{}]*+ \} )
      | (?P<name> [A-Za-z] [A-Za-z0-9_]*+ (?: - [A-Za-z0-9_]++ )*+ )
      | (?P<sign> -> | [=!<>]= | [{}\[\]:,|.<>] )
      | (?P<string> " (?: [^"\\\r\n]++ | \\. )*+ " )
      | (?P<number> [0-9]++ [smhd]? )
    )
    """,
    re.VERBOSE,
)


def bare(text: str) -> list[tuple[str, str, int]]:
    """The tokens of *text*, and nothing else."""
    tokens = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or ""
        tokens.append((kind, match[kind], match.start(kind)))
    return tokens


def mixed(agents: int) -> str:
    """Crews of five: a planner fans out to two who work, a reviewer sends their editor back or passes the work on."""
    declared, flow, crews = [], [], agents // 5
    for i in range(crews):
        declared.append(f"""\
  # Crew {i}
  agent planner-{i} {{
    description: "Plans what crew {i} does"
    model: sonnet
    tools: [Read, Grep, Glob]
    phase: {i}
  }}
  agent coder-{i} {{
    model: anthropic/claude-opus
    tools: [Read, Write, Bash]
    timeout: 5m
    retry: 2
    prompt {{
      You write the code that planner-{i} asks for.
      Keep to the style of the files you find, and say what you changed.
    }}
    outputs {{ files: text  count: integer }}
  }}
  agent tester-{i} {{ model: haiku  tools: [Read, Bash]  on-fail: skip }}
  agent editor-{i} {{
    model: sonnet
    reads: [notes/plan-{i}.md]
    writes: [notes/done-{i}.md]
    extensions {{ coterie {{ backend: command  command: ["edit", "--crew", "{i}"] }} }}
  }}
  agent reviewer-{i} {{
    model: opus
    description: "Judges"
    outputs {{ verdict: approve | revise | reject }}
  }}
""")
        flow.append(f"""\
    planner-{i} -> [coder-{i}, tester-{i}]
    [coder-{i}, tester-{i}] -> editor-{i} -> reviewer-{i}
    reviewer-{i} -> editor-{i} [when reviewer-{i}.verdict == revise, max 3]
    reviewer-{i} -> planner-{i} [when reviewer-{i}.verdict == "reject", max 1, on-max end]
""")
    flow += [
        f"    reviewer-{i} -> planner-{j} [when reviewer-{i}.verdict == approve]\n" for i, j in pairwise(range(crews))
    ]
    return f"topology mixed : [pipeline, fan-out] {{\n{''.join(declared)}\n  flow {{\n{''.join(flow)}  }}\n}}\n"


def chain(agents: int) -> str:
    """One line for each agent, and one arrow to the next."""
    declared = "".join(f"  agent a{i} {{ model: sonnet  tools: [Read, Grep] }}\n" for i in range(agents))
    flow = "".join(f"    a{i} -> a{j}\n" for i, j in pairwise(range(agents)))
    return f"topology chain : [pipeline] {{\n{declared}\n  flow {{\n{flow}  }}\n}}\n"


def timed(run: Callable[[], object]) -> float:
    """Seconds that *run* takes, from a heap without garbage; what it made is dropped afterwards."""
    gc.collect()
    began = time.perf_counter()
    made = run()
    seconds = time.perf_counter() - began
    del made
    return seconds


def rounds(count: int, *sides: Callable[[], float]) -> list[float]:
    """The median of each side, measured in turns after one round that does not count."""
    got = [[side() for side in sides] for _ in range(count + 1)][1:]
    return [statistics.median(column) for column in zip(*got, strict=True)]


def reading(shape: str, text: str, agents: int, count: int) -> float:
    """Print the cost of reading and checking *text*; return it."""
    source = formats.read_text(text)
    assert not source.has_errors, source.diagnostics[0].render(text)
    limit, read = rounds(count, partial(timed, partial(bare, text)), partial(timed, partial(formats.read_text, text)))
    print(
        f"{shape:6} {agents:6} agents, {len(text) / 1e6:5.2f} MB  tokens alone {limit * 1e3:7.1f} ms"
        f"  read and checked {read * 1e3:7.1f} ms = {read / limit:5.2f}x (≤ 12)"
    )
    return read


def process(*command: str) -> float:
    """Seconds that *command* takes."""
    return timed(partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    lexer.MAX_TEXT = lexer.MAX_TOKENS = sys.maxsize  # a file may have fewer than 10,000 agents
    for make in (mixed, chain):
        cost = {n: reading(make.__name__, make(n), n, given.rounds * (3 if n == SIZES[0] else 1)) for n in SIZES}
        print(f"{make.__name__:6} growth for ten times the agents = {cost[SIZES[1]] / cost[SIZES[0]]:.1f}x (≤ 11)")
    coterie = str(Path(sys.executable).with_name("coterie"))
    python, validate = rounds(
        given.rounds * 2,
        partial(process, sys.executable, "-c", "pass"),
        partial(process, coterie, "topology", "validate", str(EXAMPLE)),
    )
    print(
        f"validate {EXAMPLE.name}: {validate * 1e3:.0f} ms (≤ 150), python -c pass {python * 1e3:.0f} ms"
        f" = {validate / python:.1f}x"
    )


if __name__ == "__main__":
    main()
