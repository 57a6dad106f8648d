"""Twenty steps, killed in one of them: `KILL_AT=7 python steps.py`, then `python steps.py` repeats only that one."""

import asyncio
import os
from pathlib import Path

import coterie
from coterie import agent, flow


def step(step: int = 0) -> int:
    with Path("did").open("a") as did:
        did.write(f"{step}\n")
    if step == int(os.environ.get("KILL_AT", "-1")):
        os.kill(os.getpid(), 9)
    return step + 1


one = agent(step)
team = flow("steps", [one], [(one >> one).when(one.result < 20).max(19)], result=one)


async def main() -> None:
    await coterie.recover()
    print((await coterie.run(team, id="steps")).result)


if __name__ == "__main__":
    asyncio.run(main())
