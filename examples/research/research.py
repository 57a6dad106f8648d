"""Research with a typed result: a model looks things up with two tools, a team checks its claims, a function reports.

    python examples/research/research.py "How did tea come to Europe?"

Without a key in ANTHROPIC_API_KEY the model answers from a recording. The checks are a team of their own, whose
functions get the findings as values. What the report costs is counted with the rest.
"""

import asyncio
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import coterie
from coterie import agent, flow
from coterie.testing import cassette

QUESTION = "How did tea come to Europe?"
LIBRARY = {
    "dutch-trade": "Dutch ships brought the first tea from Macau to Amsterdam in 1610.",
    "portuguese-letters": "Portuguese priests in China wrote of tea as a drink from 1560 on.",
    "coffee-houses": "In London, tea was first sold in a coffee house in 1657.",
}


@dataclass
class Finding:
    claim: str
    source: str
    year: int


@dataclass
class Findings:
    findings: list[Finding]


@dataclass
class Report:
    text: str
    dropped: list[str]


def find(word: str) -> list[str]:
    """Find the titles of the library's notes that contain a word."""
    return [title for title, text in LIBRARY.items() if word.lower() in text.lower()]


def read(title: str) -> str:
    """Read a note of the library."""
    return LIBRARY[title]


def supported(scout: Findings) -> list[Finding]:
    return [one for one in scout.findings if str(one.year) in LIBRARY.get(one.source, "")]


def in_order(supported: list[Finding]) -> list[Finding]:
    return sorted(supported, key=lambda one: one.year)


def report(scout: Findings, checks: list[Finding], context: coterie.Context) -> Report:
    context.report({"input_tokens": 120, "output_tokens": 40}, cost=0.002)  # what a library of its own would charge
    kept = [f"{one.claim} ({one.source})" for one in checks]
    return Report(" ".join(kept), [one.claim for one in scout.findings if one not in checks])


def team() -> coterie.TypedFlow[Report]:
    prompt = "Find out what the task asks, from the notes of the library. Name the note and the year of each claim."
    scout = agent(
        "scout", type="model", model="sonnet", prompt=prompt, tools=[find, read], outputs=Findings, max_tokens=1000
    )
    holds, sort = agent(supported), agent(in_order)
    checks = agent("checks", flow("checks", [holds, sort], [holds >> sort], result=sort))
    write = agent(report)
    return flow("research", [scout, checks, write], [scout >> checks >> write], result=write)


async def main(question: str = QUESTION) -> None:
    recorded = cassette(Path(__file__).with_name("cassette.jsonl"))
    with nullcontext() if "ANTHROPIC_API_KEY" in os.environ else recorded:
        outcome = await coterie.run(team(), question)
    print(outcome.result)
    print(f"${outcome.usage.cost:.4f}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
