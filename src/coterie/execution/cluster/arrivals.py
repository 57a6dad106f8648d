"""Messages to a run that have arrived and are not judged yet: all that come while no node drives the run.

Of operators' messages with the same content only the first is judged, and none that is withdrawn meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from coterie.execution.runs.messages import WITHDRAW, RunMessage, Verdict
from coterie.execution.runs.messages.verdicts import Sender

Ready = Callable[[], Awaitable[None]]
"""Returns once the run takes messages."""
Take = Callable[[RunMessage, Sender], Awaitable[Verdict]]
"""Gives the verdict on a message that counts."""
WITHDRAWN = Verdict(status="refused", detail="it was withdrawn")


class _Arrival:
    """A message, with those before it that are the same, or that it takes back."""

    verdict: asyncio.Task[Verdict]

    def __init__(self, said: RunMessage, sender: Sender, earlier: list["_Arrival"]) -> None:
        self.said, self.sender, self.withdrawals = said, sender, list[_Arrival]()
        self.same = [one for one in earlier if one.said.content == said.content]
        self.taken_back = [one for one in earlier if said.kind == WITHDRAW != one.said.kind]
        for one in self.taken_back:
            one.withdrawals.append(self)


class Arrivals:
    """Gives each message its verdict.

    Args:
        spent: The withdrawals that have been judged before, which no record says; *spent* then has all of them.
    """

    def __init__(self, ready: Ready, take: Take, spent: Iterable[str] = ()) -> None:
        self._ready, self._take = ready, take
        self._waiting, self._withdrawn = list[_Arrival](), set[str]()
        self.spent = dict.fromkeys(spent)

    async def judge(self, said: RunMessage, sender: Sender) -> Verdict:
        """The verdict on *said* by *sender*."""
        is_copy = said.id in self.spent
        earlier = [] if said.attempt or is_copy else [one for one in self._waiting if not one.said.attempt]
        if said.kind == WITHDRAW and not sender.problem:
            self.spent[said.id] = None
        new = _Arrival(said, sender, earlier)
        self._waiting.append(new)
        new.verdict = asyncio.create_task(self._verdict(new))
        try:
            return await new.verdict
        finally:
            self._waiting.remove(new)

    async def _verdict(self, new: _Arrival) -> Verdict:
        await self._ready()
        if new.sender.problem:
            return await self._take(new.said, new.sender)
        for one in new.same:
            if not one.sender.problem and (verdict := await one.verdict) != WITHDRAWN:
                return verdict
        if any(not one.sender.problem for one in new.withdrawals):
            self._withdrawn.add(new.said.id)
        if new.said.id in self._withdrawn:
            return WITHDRAWN
        if new.said.kind != WITHDRAW:
            return await self._take(new.said, new.sender)
        if WITHDRAWN in [await one.verdict for one in new.taken_back]:
            return Verdict(status="accepted", detail="what waited has no effect")
        return Verdict(status="refused", detail="no message waits: the run has taken all that were sent")
