"""Triage: messages are sorted, and a person decides where the sorter is unsure, within a day.

coterie run examples/programs/triage.py:triage --input 'messages:=["It crashes", "Hello", "My invoice is wrong"]'

While it only waits for the person, the run is parked; `coterie control respond` answers, `coterie resume` goes on.
"""

from dataclasses import dataclass
from typing import Literal

from coterie import AgentFailed, agent, first, human, program, sleep, together

Desk = Literal["support", "money", "nobody"]


@dataclass
class Guess:
    desk: Desk
    sure: bool


def sort(message: str) -> Guess:
    """A guess by a few words."""
    if "crash" in message.lower():
        return Guess("support", True)
    return Guess("money", True) if "invoice" in message.lower() else Guess("nobody", False)


sorter = agent("sorter", sort)
clerk = human("clerk", "Which desk is this message for?", outputs={"desk": Desk})


@program(agents=[sorter, clerk], max_turns=200)
async def triage(messages: list[str]) -> dict[str, list[str]]:
    """The messages of each desk."""
    guesses = await together([sorter(one) for one in messages], at_once=8)
    desks: dict[str, list[str]] = {}
    for message, guess in zip(messages, guesses, strict=True):
        desk: str = guess.desk
        if not guess.sure:
            try:
                answer = await first([clerk(message), sleep(24 * 3600)])
                desk = answer.desk if answer is not None else desk
            except AgentFailed:
                pass  # nobody there: the guess counts
        desks.setdefault(desk, []).append(message)
    return desks
