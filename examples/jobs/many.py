"""Two hundred runs at once, each durable under an id of its own."""

import asyncio

import coterie
from coterie import agent, flow


async def double(n: int) -> int:
    return 2 * n


one = agent(double)
team = flow("double", [one], result=one)


async def main() -> None:
    outcomes = await asyncio.gather(*(coterie.run(team, {"n": n}, id=f"n-{n}") for n in range(200)))
    print(sum(outcome.result for outcome in outcomes))


if __name__ == "__main__":
    asyncio.run(main())
