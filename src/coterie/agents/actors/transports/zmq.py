"""The carrier over ZeroMQ: every process is connected to one broker (`broker.py`)."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping

import zmq

from coterie.agents.actors.transports.broker import LIMIT, Broker, key_pair, prepare
from coterie.agents.actors.transports.names import plain_name
from coterie.agents.actors.transports.wire import heartbeat
from coterie.base.waits import waiting
from coterie.errors import CannotStart

PROBE = 0.02
"""Seconds between packets to itself, until one comes back through the broker."""


UNHEARD = 5.0
"""Seconds until a process that waits for the broker without limit logs this."""

_LOG = logging.getLogger("coterie")
_MORE = zmq.SNDMORE | zmq.NOBLOCK


class ZmqCarrier:
    """Carries packets through a broker; topics keep systems and nodes apart.

    Connections are encrypted, and the broker accepts no others. The keys are `COTERIE_ZMQ_PUBLIC_KEY` and
    `COTERIE_ZMQ_SECRET_KEY` from the environment, which all processes and the broker of a system share, or the user's
    own pair (`key_pair`).

    Args:
        system: The name of the system.
        timeout: Seconds to wait for the broker; None: without limit.
        start_broker: Whether to run the broker in this process.
    """

    limit = LIMIT

    def __init__(
        self,
        pub_addr: str,
        sub_addr: str,
        *,
        system: str,
        timeout: float | None,
        start_broker: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._addresses, self._timeout = (pub_addr, sub_addr), timeout
        self._keys = key_pair(environment, pub_addr, sub_addr)
        self._broker = Broker(pub_addr, sub_addr, self._keys) if start_broker else None
        self._system = plain_name(system)
        self._context: zmq.Context[zmq.Socket[bytes]]
        self._receive: Callable[[bytes], None] = lambda packet: None
        self._all = self._topic("*")

    def _topic(self, address: str) -> bytes:
        return f"{self._system}/{address}".encode()

    async def connect(self, address: str, receive: Callable[[bytes], None]) -> None:
        """Connect, and wait until a packet to this node itself comes back."""
        if self._broker is not None:
            self._broker.start()
        self._context = zmq.Context()
        self._out, self._in = (self._socket(kind) for kind in (zmq.PUB, zmq.SUB))
        self._out.connect(self._addresses[0])
        self._in.connect(self._addresses[1])
        for topic in (self._topic(address), self._all):
            self._in.setsockopt(zmq.SUBSCRIBE, topic)
        arrived = asyncio.Event()
        self._receive = lambda packet: arrived.set()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._in.fileno(), self._read)
        places = " and ".join(self._addresses)
        unheard = loop.call_later(UNHEARD, self._say_unheard, places)
        try:
            with waiting(f"the broker at {self._addresses[0]}"):
                async with asyncio.timeout(self._timeout):
                    while not arrived.is_set():
                        await self.publish(address, heartbeat(address, 0))
                        self._read()
                        await asyncio.sleep(PROBE)
        except TimeoutError:
            await self.close()
            hint = "start it with `coterie zmq-proxy`, or write transport.start_proxy: true"
            raise CannotStart(f"no broker answers at {places} within {self._timeout:g} s: {hint}") from None
        except BaseException:
            await self.close()
            raise
        finally:
            unheard.cancel()
        self._receive = receive

    def _say_unheard(self, places: str) -> None:
        if self._timeout is None:
            _LOG.warning("no broker answers at %s yet: the supervisors do not run, or have other keys", places)

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        prepare(socket, self._keys)
        socket.setsockopt(zmq.LINGER, 500)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        if self._keys is not None:
            socket.curve_serverkey = self._keys[0]
        return socket

    async def publish(self, address: str, packet: bytes) -> None:
        """Send a packet; it is dropped while the broker is unavailable."""
        self._out.send(self._topic(address) if address else self._all, _MORE)
        self._out.send(packet, zmq.NOBLOCK)

    def _read(self) -> None:
        """Read all packets, since the descriptor becomes readable only when a new one arrives."""
        while not self._in.closed:
            try:
                parts = self._in.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(parts) == 2:
                self._receive(parts[1])

    async def close(self) -> None:
        """Disconnect."""
        if not self._in.closed:
            asyncio.get_running_loop().remove_reader(self._in.fileno())
        for socket in (self._in, self._out):
            socket.close()
        await asyncio.to_thread(self._context.term)
        if self._broker is not None:
            await asyncio.to_thread(self._broker.stop)
