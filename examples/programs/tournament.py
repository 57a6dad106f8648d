"""A tournament: several writers propose a name, and a judge compares them in pairs until one is left.

coterie run examples/programs/tournament.py:tournament "a tea shop"
"""

from coterie import AgentFailed, agent, note, program, random, together


def propose(subject: str, n: int) -> str:
    """The n-th idea."""
    if n == 3:
        raise ValueError("no idea")
    return f"{subject.removeprefix('a ').title()} {'of the East by the Old Harbour'[: 4 * n]}".strip()


def compare(one: str, other: str) -> str:
    """The shorter name is better."""
    return min(one, other, key=lambda name: (len(name), name))


proposer = agent("proposer", propose, max_retries=0)
judge = agent("judge", compare)


@program(agents=[proposer, judge], max_turns=64)
async def tournament(subject: str, size: int = 6) -> str:
    """The winner; proposals that fail do not take part."""
    proposals = await together([proposer(subject, n) for n in range(size)], failures=True)
    names = [one for one in proposals if isinstance(one, str)]
    note(f"{len(names)} take part, {sum(isinstance(one, AgentFailed) for one in proposals)} failed")
    random().shuffle(names)
    while len(names) > 1:
        pairs = zip(names[::2], names[1::2], strict=False)
        winners = await together([judge(*pair) for pair in pairs], at_once=4)
        names = winners + (names[-1:] if len(names) % 2 else [])
    return names[0]
