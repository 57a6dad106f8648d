"""The broker of the transport `zmq`: processes send to one of its addresses and receive from the other."""

import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from coterie.base import files
from coterie.errors import CannotStart, ExtraMissing

QUEUED = 10_000
"""How many packets may wait for one process; further ones are dropped, and sent again by their senders."""

LIMIT = 16 << 20
"""The largest packet, in bytes."""

PUBLIC, SECRET = "COTERIE_ZMQ_PUBLIC_KEY", "COTERIE_ZMQ_SECRET_KEY"
"""Environment variables with the key pair of a system, in Z85; if both are `none`: no encryption."""

OWN_KEYS = "zmq-keys"
"""The file, in the user's state folder, with the key pair for this user's processes on this machine."""

_LOG = logging.getLogger("coterie")


def key_pair(environment: Mapping[str, str], *addresses: str) -> tuple[bytes, bytes] | None:
    """The keys of the system: those of *environment*, or the user's own pair if *addresses* are only on this machine.

    The user's pair is created on first use. Without keys every user of the machine can read and send messages, which is
    logged.

    Raises:
        CannotStart: If a key is missing or malformed, the keys are not a pair, or the user's own cannot be stored.
        ExtraMissing: If pyzmq is not installed.
    """
    keys = environment.get(PUBLIC, ""), environment.get(SECRET, "")
    if keys == ("", ""):
        return _own_pair() if all(map(_is_local, addresses)) else None
    if keys == ("none", "none"):
        _LOG.warning(
            "the transport zmq runs without keys: every user of this machine can read and send its messages; "
            "unset %s and %s to use keys of your own",
            PUBLIC,
            SECRET,
        )
        return None
    for name, key in zip((PUBLIC, SECRET), keys, strict=True):
        if len(key) != 40:
            raise CannotStart(f"{name} must be a key of 40 characters: `coterie zmq-proxy --new-keys` prints a pair")
    need_zmq()
    import zmq

    try:
        is_pair = zmq.curve_public(keys[1].encode()) == keys[0].encode()
    except (zmq.ZMQError, ValueError):  # not Z85
        is_pair = False
    if not is_pair:
        raise CannotStart(f"{PUBLIC} and {SECRET} are no pair: `coterie zmq-proxy --new-keys` prints one")
    return keys[0].encode(), keys[1].encode()


def _own_pair() -> tuple[bytes, bytes]:
    """The pair for processes of this user on this machine."""
    need_zmq()

    def pair_of(text: bytes) -> list[bytes]:
        return [key for key in text.split() if len(key) == 40]

    try:
        files.make_folder(files.user_state())
        kept = files.write_once(
            files.user_state() / OWN_KEYS,
            lambda: "\n".join(new_key_pair()).encode(),
            100,
            lambda text: len(pair_of(text)) == 2,
        )
    except (OSError, RuntimeError) as error:
        raise CannotStart(
            f"the keys of the transport zmq cannot be kept in {OWN_KEYS} of the user's state folder ({error}): "
            f"set {PUBLIC} and {SECRET}; `coterie zmq-proxy --new-keys` prints a pair"
        ) from None
    public, secret = pair_of(kept)
    return public, secret


def new_key_pair() -> tuple[str, str]:
    """A new public and secret key.

    Raises:
        ExtraMissing: If pyzmq is not installed.
    """
    need_zmq()
    import zmq

    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def prepare(socket: Any, keys: tuple[bytes, bytes] | None) -> None:
    """Limit the size and the number of packets, encrypt, and detect a lost peer."""
    import zmq

    socket.setsockopt(zmq.SNDHWM, QUEUED)
    socket.setsockopt(zmq.RCVHWM, QUEUED)
    socket.setsockopt(zmq.MAXMSGSIZE, LIMIT)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3000)
    if keys is not None:
        socket.curve_publickey, socket.curve_secretkey = keys


def need_zmq() -> None:
    """Raise `ExtraMissing` if pyzmq is not installed."""
    if find_spec("zmq") is None:
        raise ExtraMissing("zmq", "pyzmq", "the transport 'zmq'")


class Broker:
    """Forwards packets, in a thread.

    Without keys it binds only to loopback addresses.

    Args:
        keys: The key pair that every connection must have.
    """

    def __init__(self, pub_addr: str, sub_addr: str, keys: tuple[bytes, bytes] | None = None) -> None:
        self._addresses, self._keys = (pub_addr, sub_addr), keys
        self._auth: Any = None

    def start(self) -> None:
        """Bind, and begin to forward packets.

        Raises:
            CannotStart: If an address is taken, or needs keys.
            ExtraMissing: If pyzmq is not installed.
        """
        need_zmq()
        import zmq

        self._context = zmq.Context()
        if self._keys is not None:
            self._authenticate(self._keys[0])
        sockets: list[Any] = []
        for address, kind in zip(self._addresses, (zmq.XSUB, zmq.XPUB), strict=True):
            if self._keys is None and not _is_local(address):
                self.stop(*sockets)
                keys = f"{PUBLIC} and {SECRET}"
                raise CannotStart(f"the broker does not bind to {address} without keys: set {keys}, or use 127.0.0.1")
            socket = self._context.socket(kind)
            sockets.append(socket)
            prepare(socket, self._keys)
            socket.setsockopt(zmq.LINGER, 0)
            if self._keys is not None:
                socket.curve_server = True
            try:
                socket.bind(address)
            except zmq.ZMQError as error:
                self.stop(*sockets)
                taken = ": another broker or program has it" if error.errno == zmq.EADDRINUSE else ""
                raise CannotStart(
                    f"the broker cannot bind to {address}: {zmq.strerror(error.errno or 0)}{taken}"
                ) from None
        self._thread = threading.Thread(target=self._run, args=sockets, name="zmq-broker", daemon=True)
        self._thread.start()

    def _authenticate(self, public: bytes) -> None:
        from zmq.auth.thread import ThreadAuthenticator

        class OneKey:
            def callback(self, domain: str, key: bytes) -> bool:
                return key == public

        self._auth = ThreadAuthenticator(self._context)
        self._auth.start()
        self._auth.configure_curve_callback(domain="*", credentials_provider=OneKey())

    def _run(self, *sockets: Any) -> None:
        import zmq

        try:
            zmq.proxy(*sockets)
        except zmq.ContextTerminated:
            pass
        finally:
            for socket in sockets:
                socket.close()

    def stop(self, *sockets: Any) -> None:
        """Stop; waiting packets are dropped."""
        for socket in sockets:
            socket.close()
        if self._auth is not None:
            self._auth.stop()
        self._context.term()


def _is_local(address: str) -> bool:
    """Whether only this machine can connect to *address*."""
    parts = urlsplit(address)
    if parts.scheme != "tcp":
        return True
    try:
        return parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
