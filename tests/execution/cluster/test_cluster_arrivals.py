"""Messages that come while no node drives a run: the next node judges each once, and none that was withdrawn."""

import asyncio
from collections.abc import Awaitable, Sequence

from bundles import bundle
from msgspec.structs import replace

from coterie.execution.cluster.arrivals import WITHDRAWN, Arrivals
from coterie.execution.runs.messages import RunMessage, Verdict, guidance, stop, withdrawal
from coterie.execution.runs.messages.verdicts import Sender

FORGED = "forged"


class Run:
    """A run that takes what operators say, and refuses what is forged.

    Attributes:
        taken: What it has taken.
    """

    def __init__(self) -> None:
        self.taken: list[RunMessage] = []
        self.opened = asyncio.Event()
        self.arrivals = Arrivals(self._ready, self._take)

    async def _ready(self) -> None:
        await self.opened.wait()

    def judge(self, said: RunMessage) -> Awaitable[Verdict]:
        sender = Sender("agent", "it is forged") if said.token == FORGED else Sender("operator")
        return self.arrivals.judge(said, sender)

    async def _take(self, said: RunMessage, sender: Sender) -> Verdict:
        if not sender.problem:
            self.taken.append(said)
        return Verdict(status="refused" if sender.problem else "accepted", detail=sender.problem)


def together(*said: RunMessage) -> tuple[list[str], list[str]]:
    """The verdicts on messages that all wait when a node takes the run up, and the texts of what it takes."""

    async def main() -> tuple[Sequence[Verdict], list[RunMessage]]:
        run = Run()
        judging = [asyncio.ensure_future(run.judge(one)) for one in said]
        await asyncio.sleep(0)
        run.opened.set()
        verdicts = await asyncio.gather(*judging)
        assert run.arrivals._waiting == []
        return verdicts, run.taken

    verdicts, taken = asyncio.run(main())
    return [one.status + (f": {one.detail}" if one == WITHDRAWN else "") for one in verdicts], [
        one.text or one.kind for one in taken
    ]


GONE = "refused: it was withdrawn"
BRIEF, AGAIN = guidance("be brief"), guidance("be brief")
FAKE = replace(BRIEF, id="fake", token=FORGED)
EMIT = RunMessage(id="e1", kind="emit", turn="a#1", attempt=1, event="done")


@bundle(
    ("said", "verdicts", "taken"),
    [
        ((BRIEF, guidance("go on")), ["accepted", "accepted"], ["be brief", "go on"]),
        ((BRIEF, BRIEF), ["accepted", "accepted"], ["be brief"]),
        ((BRIEF, AGAIN, stop(), AGAIN), ["accepted"] * 4, ["be brief", "stop"]),
        ((BRIEF, replace(AGAIN, turn="a#1")), ["accepted"] * 2, ["be brief", "be brief"]),
        ((BRIEF, replace(AGAIN, by="r/a#1.1")), ["accepted"] * 2, ["be brief", "be brief"]),
        ((FAKE, BRIEF), ["refused", "accepted"], ["be brief"]),
        ((BRIEF, FAKE), ["accepted", "refused"], ["be brief"]),
        ((EMIT, replace(EMIT, id="e2")), ["accepted"] * 2, ["emit", "emit"]),
        ((BRIEF, stop(), withdrawal()), [GONE, GONE, "accepted"], []),
        ((BRIEF, withdrawal(), AGAIN), [GONE, "accepted", "accepted"], ["be brief"]),
        ((BRIEF, withdrawal(), BRIEF), [GONE, "accepted", GONE], []),
        ((BRIEF, withdrawal(), withdrawal()), [GONE, "accepted", "accepted"], []),
        ((withdrawal(), BRIEF), ["refused", "accepted"], ["be brief"]),
        ((BRIEF, replace(withdrawal(), token=FORGED)), ["accepted", "refused"], ["be brief"]),
        ((FAKE, withdrawal()), ["refused", "refused"], []),
        ((BRIEF, replace(withdrawal(), turn="a#1", attempt=1)), ["accepted", "refused"], ["be brief"]),
        ((EMIT, withdrawal()), ["accepted", "refused"], ["emit"]),
    ],
)
def test_messages_that_wait_for_a_node(said: tuple[RunMessage, ...], verdicts: list[str], taken: list[str]) -> None:
    """Of the same ones one counts; a withdrawal takes back what came before it; agents' messages are apart."""
    assert together(*said) == (verdicts, taken)


def test_a_message_that_was_withdrawn_is_gone_however_late_it_comes_again() -> None:
    """The server may still hold it for a sender that waited for the verdict."""

    async def main() -> None:
        run = Run()
        judging = [asyncio.ensure_future(run.judge(one)) for one in (BRIEF, withdrawal())]
        await asyncio.sleep(0)
        run.opened.set()
        await asyncio.gather(*judging)
        assert await run.judge(BRIEF) == WITHDRAWN
        assert (await run.judge(AGAIN)).status == "accepted"
        assert run.taken == [AGAIN]

    asyncio.run(main())


def test_a_copy_of_a_withdrawal_takes_nothing_back() -> None:
    """No record has a withdrawal, so what was judged is remembered, also from link to link."""

    async def main() -> None:
        first, withdraws = Run(), withdrawal()
        first.opened.set()
        await first.judge(withdraws)
        for spent in (first.arrivals.spent, {}):
            run = Run()
            run.arrivals.spent.update(spent)
            judging = [asyncio.ensure_future(run.judge(one)) for one in (BRIEF, AGAIN, withdraws)]
            await asyncio.sleep(0)
            run.opened.set()
            await asyncio.gather(*judging)
            assert run.taken == ([BRIEF] if spent else [])

    asyncio.run(main())


def test_what_was_judged_is_said_anew_and_cannot_be_withdrawn() -> None:
    """Guidance may be repeated once it was taken."""

    async def main() -> None:
        run = Run()
        run.opened.set()
        assert (await run.judge(BRIEF)).status == "accepted"
        assert (await run.judge(AGAIN)).status == "accepted"
        assert run.taken == [BRIEF, AGAIN]
        late = await run.judge(withdrawal())
        assert (late.status, "has taken all" in late.detail) == ("refused", True)

    asyncio.run(main())
