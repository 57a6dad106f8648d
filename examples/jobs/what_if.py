"""A run, a fork of it with another input, and one with another answer of its judge."""

import asyncio
from typing import Literal

import coterie
from coterie import agent, flow


def judge(prompt: str) -> Literal["good", "bad"]:
    return "good" if "tea" in prompt else "bad"


def write(judge: str, prompt: str) -> str:
    return f"{prompt} is {judge}"


judges, writes = agent(judge), agent(write)
team = flow("review", [judges, writes], [judges >> writes], result=writes)


async def main() -> None:
    first = await coterie.run(team, "tea", id="review-1")
    other = await coterie.fork("review-1", team=team, input="coffee")
    answer = await coterie.fork("review-1", team=team, outputs={"judge": {"result": "bad"}})
    print(first.result, other.result, answer.result, sep=", ")


if __name__ == "__main__":
    asyncio.run(main())
