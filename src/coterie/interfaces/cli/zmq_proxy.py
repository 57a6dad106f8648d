"""`coterie zmq-proxy`: the broker of the transport zmq."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.output import announce, say
from coterie.interfaces.cli.parameters import Opt

if TYPE_CHECKING:
    from coterie.team.topology.system.fields import TransportFields


def zmq_proxy(
    topology: Annotated[Path | None, Opt("-t, --topology FILE", "Take the addresses from this system.")] = None,
    pub_addr: Annotated[str | None, Opt("--pub-addr ADDR", "Where processes send to.")] = None,
    sub_addr: Annotated[str | None, Opt("--sub-addr ADDR", "Where processes receive from.")] = None,
    new_keys: Annotated[bool, Opt("--new-keys", "Print a new pair of keys for the environment, and exit.")] = False,
) -> int:
    """Run the ZeroMQ broker of a system whose transport is `zmq`.

    The supervisor's process runs it itself with `start_proxy: true`. Connections are encrypted and no others are
    accepted. Processes of one user on one machine share keys by themselves; for others put those of --new-keys into
    the environment of the broker and of all processes. Ctrl-C or SIGTERM ends it.
    """
    import asyncio
    import os

    from coterie.agents.actors.transports.broker import PUBLIC, SECRET, Broker, key_pair, new_key_pair
    from coterie.interfaces.cli.signals import drive
    from coterie.team.topology.system.fields import TransportFields

    if new_keys:
        public, secret = new_key_pair()
        say(f"{PUBLIC}='{public}'\n{SECRET}='{secret}'")
        return 0
    fields = TransportFields() if topology is None else _transport(topology)
    sends, receives = pub_addr or fields.pub_addr, sub_addr or fields.sub_addr
    keys = key_pair(os.environ, sends, receives)
    broker = Broker(sends, receives, keys)

    async def main() -> None:
        broker.start()
        announce(f"passing messages from {sends} on to {receives}, {'encrypted' if keys else 'without encryption'}")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # its normal end
            return
        finally:
            broker.stop()

    drive(main(), lambda: "stopping the broker")
    return 0


def _transport(path: Path) -> "TransportFields":
    from coterie.errors import UsageError
    from coterie.team import formats

    system = formats.read(path).valid().system
    if system is None:
        raise UsageError(f"{path} is no supervised system: it has no transport")
    return system.transport
