"""A model with two tools and a typed answer: `python tools.py "When did tea come to Amsterdam?"`."""

import asyncio
import sys
from dataclasses import dataclass

import coterie
from coterie import agent, flow

LIBRARY = {"dutch-trade": "Dutch ships brought the first tea to Amsterdam in 1610."}


@dataclass
class Finding:
    claim: str
    source: str
    year: int


def find(word: str) -> list[str]:
    """Find the titles of the notes that contain a word."""
    return [title for title, text in LIBRARY.items() if word in text]


def read(title: str) -> str:
    """Read a note."""
    return LIBRARY[title]


PROMPT = "Find out what the task asks, from the notes."
scout = agent("scout", type="model", model="sonnet", prompt=PROMPT, tools=[find, read], outputs=Finding)
team = flow("research", [scout], result=scout)

if __name__ == "__main__":
    print(asyncio.run(coterie.run(team, sys.argv[1])).result)
