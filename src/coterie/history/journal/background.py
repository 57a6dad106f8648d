"""An event loop on a thread: lets synchronous readers use asynchronous libraries."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines on a separate thread, which starts with the first one and ends with the process or `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="coterie-background", daemon=True)
        self._starting = threading.Lock()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* and return its result; the calling thread blocks meanwhile."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* and return its result; the calling event loop is not blocked."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._started()))

    def close(self) -> None:
        """End the thread. Idempotent."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread.start()
            return self._loop

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run_forever()
        self._loop.close()
