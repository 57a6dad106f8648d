"""A session whose result comes from outside it: from a timer, from a human, or from `interrupt`."""

import asyncio
from collections.abc import Callable

from coterie.backends.base import Failure, Result


class Pending:
    """An attempt that costs nothing while it waits: one future, settled once."""

    def __init__(self) -> None:
        self._result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def settle(self, result: Result) -> None:
        """Give the result; whoever comes second comes too late."""
        if not self._result.done():
            self._result.set_result(result)

    def when_over(self, release: Callable[[], object]) -> None:
        """Call *release* once it is over, however it ended."""
        self._result.add_done_callback(lambda _: release())

    @property
    def over(self) -> bool:
        """Whether there is a result."""
        return self._result.done()

    async def result(self) -> Result:
        """Wait for the result; cancelling settles it as interrupted."""
        try:
            return await asyncio.shield(self._result)
        except asyncio.CancelledError:
            self.settle(Failure(kind="interrupted", reason="nobody waits for its result any more"))
            raise

    async def interrupt(self) -> None:
        """End it now."""
        self.settle(Failure(kind="interrupted", reason="it was interrupted"))

    async def steer(self, text: str) -> bool:
        """False: nobody listens."""
        return False
