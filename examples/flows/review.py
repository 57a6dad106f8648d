"""A review of Python files as a typed flow in one file. No model, no key, no network.

    python examples/flows/review.py examples/flows

Two functions look at the files side by side, a third writes the review, and a fourth sends it back until it is short.
Replace one with `agent("writer", model="sonnet", outputs=Review)` to have a model write it.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import coterie
from coterie import agent, flow


@dataclass
class Finding:
    file: str
    line: int
    text: str


@dataclass
class Review:
    title: str
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Verdict:
    verdict: Literal["approve", "shorten"]
    most: int = 3


def long_lines(prompt: str) -> list[Finding]:
    return [Finding(file, n, f"{len(line)} characters") for file, n, line in _lines(prompt) if len(line) > 100]


async def open_ends(prompt: str) -> list[Finding]:
    return [Finding(file, n, line.strip()) for file, n, line in _lines(prompt) if "model=" in line]


def writer(long_lines: list[Finding], open_ends: list[Finding], judge: Verdict | None = None) -> Review:
    found = [*long_lines, *open_ends]
    return Review(f"{len(found)} findings", found[: judge.most] if judge is not None else found)


def judge(writer: Review) -> Verdict:
    return Verdict("approve" if len(writer.findings) <= 3 else "shorten")


def _lines(folder: str) -> list[tuple[str, int, str]]:
    files = sorted(Path(folder).glob("*.py"))
    return [(file.name, n, line) for file in files for n, line in enumerate(file.read_text().splitlines(), 1)]


def team() -> coterie.TypedFlow[Review]:
    lines, ends, write, judged = agent(long_lines), agent(open_ends), agent(writer), agent(judge)
    again = (judged >> write).when(judged.verdict == "shorten").max(2)
    return flow("review", [lines, ends, write, judged], [[lines, ends] >> write >> judged, again], result=write)


async def main() -> None:
    outcome = await coterie.run(team(), sys.argv[1] if len(sys.argv) > 1 else ".")
    print(outcome.result)


if __name__ == "__main__":
    asyncio.run(main())
