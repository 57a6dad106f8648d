"""A TCP proxy in a thread that stops forwarding on request, as a network does: without a word to either side."""

import asyncio
import threading
from urllib.parse import urlsplit


class TcpGate:
    """Forwards connections to *target*, `scheme://host:port` or `unix://` and the path of a socket.

    Attributes:
        place: Its own `host:port`.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port) if parts.scheme != "unix" else parts.path
        self._loop = asyncio.new_event_loop()
        self._is_open = asyncio.Event()
        self._is_open.set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.place = "{}:{}".format(*server.sockets[0].getsockname())
        started.set()
        self._loop.run_forever()
        server.close()
        forwarding = asyncio.all_tasks(self._loop)
        for task in forwarding:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*forwarding, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.01))  # transports close their sockets
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._is_open.wait()
            if isinstance(self._target, str):
                there, back = await asyncio.open_unix_connection(self._target)
            else:
                there, back = await asyncio.open_connection(*self._target)
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def close(self) -> None:
        """Forward nothing; what arrives meanwhile is forwarded later, as by TCP."""
        self._loop.call_soon_threadsafe(self._is_open.clear)

    def open(self) -> None:
        """Forward again."""
        self._loop.call_soon_threadsafe(self._is_open.set)

    def end(self) -> None:
        """Close all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
