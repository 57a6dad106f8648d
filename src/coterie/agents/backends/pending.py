"""A session whose result comes from a timer, a human, or `interrupt`."""

import asyncio
from collections.abc import Callable

from coterie.agents.backends.base import Failure, Result


class Pending:
    """An attempt that waits for its result without a task: one future, settled once."""

    def __init__(self) -> None:
        self._result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def settle(self, result: Result) -> None:
        """Set the result; only the first call counts."""
        if not self._result.done():
            self._result.set_result(result)

    def when_over(self, release: Callable[[], object]) -> None:
        """Call *release* when there is a result."""
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
            self.settle(Failure(kind="interrupted", reason="its result is no longer awaited"))
            raise

    async def interrupt(self) -> None:
        """End it now."""
        self.settle(Failure(kind="interrupted", reason="it was interrupted"))

    async def steer(self, text: str) -> bool:
        """Return False: this backend cannot be steered."""
        return False
