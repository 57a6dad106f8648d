"""Packets between nodes of one process, on any loop, a virtual clock's too; some can be lost."""

import asyncio
from collections.abc import Callable


class MemoryHub:
    """What the carriers of some nodes have in common; closed, it carries nothing.

    Attributes:
        drops: Called with the sender, the address and the packet; whether it is lost.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Callable[[bytes], None]] = {}
        self.drops: Callable[[str, str, bytes], bool] = lambda sender, address, packet: False

    def carrier(self) -> "MemoryCarrier":
        """A carrier for one more node."""
        return MemoryCarrier(self)


class MemoryCarrier:
    """One node's."""

    limit = 1 << 20

    def __init__(self, hub: MemoryHub) -> None:
        self.hub, self.address = hub, ""

    async def connect(self, address: str, receive: Callable[[bytes], None]) -> None:
        self.address = address
        self.hub.nodes[address] = receive

    async def publish(self, address: str, packet: bytes) -> None:
        loop = asyncio.get_running_loop()
        for name, receive in list(self.hub.nodes.items()):
            if address in ("", name) and not self.hub.drops(self.address, name, packet):
                loop.call_soon(receive, packet)

    async def close(self) -> None:
        self.hub.nodes.pop(self.address, None)
