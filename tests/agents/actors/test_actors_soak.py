"""Many messages to many agents that crash at random: every ask ends, and every message is accounted for."""

import asyncio
import gc
import random
import tracemalloc

import pytest

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.policy import Backoff, RestartLimit, RestartPolicy, RestartStrategy
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.base.clock import VirtualClock
from coterie.errors import ActorError, AskTimedOut

GROUP = 25
"""Agents under one supervisor."""


class Tally:
    """What became of the messages, as the agents and the senders saw it."""

    def __init__(self) -> None:
        self.sent = self.handled = self.failed = self.refused = 0


class Moody(AgentProcess):
    """Works a little, sometimes passes a message on, and crashes at one message of twenty."""

    def __init__(self, name: str, names: list[str], chance: random.Random, tally: Tally) -> None:
        super().__init__(name, mailbox_size=50)
        self.names, self.chance, self.tally = names, chance, tally

    async def handle(self, message: Message) -> Message | None:
        if self.chance.random() < 0.1:
            await asyncio.sleep(self.chance.random())
        if message.payload["hops"]:
            try:
                await self.send(self.chance.choice(self.names), {"hops": message.payload["hops"] - 1})
                self.tally.sent += 1
            except ActorError:  # stopped, or full mailboxes in a circle
                self.tally.refused += 1
        if self.chance.random() < 0.05:
            raise RuntimeError("as it happens")
        self.tally.handled += 1
        return self.reply({"by": self.name})


@pytest.mark.parametrize(
    ("agents", "messages"), [(100, 2000), pytest.param(500, 200_000, marks=pytest.mark.long)], ids=["short", "whole"]
)
def test_every_message_is_accounted_for(agents: int, messages: int) -> None:
    """Handled, a dead letter, or an error for its asker; memory does not grow with the messages."""
    chance, tally, clock = random.Random(7), Tally(), VirtualClock(1000.0)
    strategies = list(RestartStrategy)

    async def main() -> None:
        node = ActorNode(clock=clock)
        await node.start()
        names = [f"agent-{n}" for n in range(agents)]
        groups = []
        for first in range(0, agents, GROUP):
            children = [
                AgentChild(ChildSpec(name=one, factory=lambda one=one: Moody(one, names, chance, tally)), node)  # type: ignore[misc]
                for one in names[first : first + GROUP]
            ]
            # one group in five gives up now and then, and is started anew by the root
            limit = RestartLimit(max_restarts=5 if first % (5 * GROUP) == 0 else 1_000_000, window=1.0)
            policy = RestartPolicy(
                strategy=strategies[first // GROUP % 3], limit=limit, backoff=Backoff(base=0.0 if first % 2 else 0.01)
            )
            groups.append(SupervisorActor(ChildSpec(name=f"group-{first}"), policy, children))
        endless = RestartPolicy(limit=RestartLimit(max_restarts=1_000_000), backoff=Backoff(base=0.0))
        root = SupervisorActor(ChildSpec(name="root", shutdown=None), endless, groups)
        await root.start(1)

        async def one(n: int) -> None:
            name, payload = chance.choice(names), {"hops": chance.choice((0, 0, 1))}
            try:
                if n % 2:
                    await node.send(name, payload)
                    tally.sent += 1
                else:
                    tally.sent += 1
                    await node.ask(name, payload, timeout=100_000)
            except AskTimedOut:
                raise
            except ActorError:
                if n % 2:
                    tally.refused += 1
                else:
                    tally.failed += 1

        sizes = []
        for batch in range(0, messages, 1000):
            await asyncio.gather(*(one(n) for n in range(batch, batch + 1000)))
            if is_whole and batch in (messages // 2, messages - 1000):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        await asyncio.sleep(1000)
        await root.stop(SHUTDOWN)
        dead = len(node.letters)
        assert tally.sent == tally.handled + dead + tally.failed
        assert tally.sent >= messages - tally.refused
        assert min(tally.handled, dead, tally.failed, tally.refused) > 0, "all of these happen"
        assert node.names() == []
        if is_whole:
            assert sizes[1] < sizes[0] * 1.05 + 200_000, "memory is flat"

    is_whole = messages > 100_000  # in a short run, what other tests left behind counts for more
    if is_whole:
        tracemalloc.start()
    try:
        clock.run(main())
    finally:
        tracemalloc.stop()
