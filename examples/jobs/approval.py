"""A person approves; the process may be killed while it waits: `python approval.py start`, then `approval.py yes`."""

import asyncio
import sys

import coterie
from coterie import agent, flow, human


def draft(prompt: str) -> str:
    return f"Dear customer, about {prompt}"


def send(draft: str, boss: str) -> str:
    return f"sent: {draft} ({boss})"


writes, boss, sends = agent(draft), human("boss", "Send it?"), agent(send)
team = flow("order", [writes, boss, sends], [writes >> boss >> sends], result=sends)


async def main(said: str) -> None:
    if said == "start":
        await coterie.run(team, "tea", id="order-1")
    else:
        coterie.get("order-1").answer("boss#1", said)
        print((await coterie.resume("order-1", team=team)).result)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
