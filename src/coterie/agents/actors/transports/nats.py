"""The carrier over NATS."""

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from coterie.agents.actors.transports.names import plain_name
from coterie.base.waits import waiting
from coterie.errors import CannotStart, ExtraMissing

RECONNECT = 0.1
"""Seconds between two attempts to reconnect."""

PING = 2
"""Seconds between two pings of the server; after two without an answer the client reconnects."""

ENVIRONMENT = "COTERIE_NATS_"
"""The prefix of environment variables.

They are `CREDS` and `NKEY` (files), `USER`, `PASSWORD`, `TOKEN`, and `CA`, `CERT` and `KEY` (PEM files).
"""

_LOG = logging.getLogger("coterie")

_OPTIONS = {"CREDS": "user_credentials", "NKEY": "nkeys_seed", "USER": "user", "PASSWORD": "password", "TOKEN": "token"}


class NatsCarrier:
    """Carries packets over NATS; subjects keep systems and nodes apart.

    Args:
        system: The name of the system.
        timeout: Seconds to wait for a server.
        environment: Contains the credentials and TLS files, unless the URLs do.
    """

    def __init__(
        self, servers: Sequence[str], *, system: str, timeout: float, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.client = Client()
        self.limit = 1 << 20
        self.on_reconnect: Callable[[], None] = lambda: None
        self._servers, self._timeout = list(servers), timeout
        self._options = _credentials(environment)
        self._prefix = f"coterie.{plain_name(system)}"
        self._error: Exception | None = None

    async def connect(self, address: str, receive: Callable[[bytes], None]) -> None:
        """Connect and subscribe."""

        async def take(message: Msg) -> None:
            receive(message.data)

        async def failed(error: Exception) -> None:
            if self._error is None or not isinstance(error, OSError):
                self._error = error  # a refusal is more informative than the end of a connection

        async def reconnected() -> None:
            self.on_reconnect()

        async def connected() -> None:
            await self.client.connect(
                self._servers,
                name=f"{self._prefix} {address}",
                error_cb=failed,
                reconnected_cb=reconnected,
                connect_timeout=max(1, round(self._timeout)),
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT,  # type: ignore[arg-type]
                ping_interval=PING,
                skip_subject_validation=True,
                **self._options,
            )
            for subject in (f"{self._prefix}.node.{address}", f"{self._prefix}.all"):
                await self.client.subscribe(subject, cb=take)
            await self.client.flush()

        try:
            with waiting(f"the NATS server at {self._places()}"):
                await _in_time(connected(), self._timeout)
        except (TimeoutError, OSError, errors.Error) as error:
            with suppress(Exception):
                await self.client.close()
            why = str(self._error or error).removeprefix("nats: ").strip("'\"")
            if "authorization" in why.lower() or "authentication" in why.lower():
                raise CannotStart(
                    f"the NATS server at {self._places()} refuses this process ({why}): "
                    f"give the credentials in {ENVIRONMENT}USER and {ENVIRONMENT}PASSWORD, {ENVIRONMENT}TOKEN, "
                    f"{ENVIRONMENT}CREDS or {ENVIRONMENT}NKEY"
                ) from None
            raise CannotStart(
                f"no NATS server at {self._places()} within {self._timeout:g} s{f': {why}' if why else ''}"
            ) from None
        self.limit = self.client.max_payload
        if not self.client._server_info.get("auth_required"):
            _LOG.warning(
                "the NATS server at %s asks for no credentials: everyone who reaches it can read and send "
                "messages of this system; configure users in the server and set %sUSER and %sPASSWORD",
                self._places(),
                ENVIRONMENT,
                ENVIRONMENT,
            )

    def _places(self) -> str:
        """The servers, without the credentials in their URLs."""
        return ", ".join(re.sub(r"//[^/]*@", "//", server) for server in self._servers)

    async def publish(self, address: str, packet: bytes) -> None:
        """Send a packet; it is dropped while the server is unavailable."""
        if self.client.is_connected:
            subject = f"{self._prefix}.node.{address}" if address else f"{self._prefix}.all"
            with suppress(errors.Error, OSError):
                await self.client.publish(subject, packet)

    async def close(self) -> None:
        """Disconnect."""
        with suppress(errors.Error, OSError):
            if self.client.is_connected:
                await self.client.flush(1)
            await self.client.close()


async def _in_time(work: Coroutine[Any, Any, None], seconds: float) -> None:
    """Do *work* with a time-out. Cancellation is repeated until it ends: the client can lose one and retry for ever.

    Raises:
        TimeoutError: If it takes longer than *seconds*.
    """
    task = asyncio.ensure_future(work)
    try:
        if not (await asyncio.wait({task}, timeout=seconds))[0]:
            raise TimeoutError
        task.result()
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=0.1)


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    """The client's options for the credentials in *environment*.

    Raises:
        CannotStart: If a file cannot be read.
    """
    given = {key.removeprefix(ENVIRONMENT): value for key, value in environment.items() if key.startswith(ENVIRONMENT)}
    options: dict[str, Any] = {_OPTIONS[key]: value for key, value in given.items() if key in _OPTIONS and value}
    if ("CREDS" in given or "NKEY" in given) and find_spec("nkeys") is None:
        raise ExtraMissing("nats", "nkeys", "a NATS server with keys")
    try:
        for key in ("CREDS", "NKEY"):
            if key in given:
                open(given[key], "rb").close()
        if "CA" in given or "CERT" in given:
            context = ssl.create_default_context(cafile=given.get("CA"))
            if "CERT" in given:
                context.load_cert_chain(given["CERT"], given.get("KEY"))
            options["tls"] = context
    except OSError as error:  # TLS errors, too
        raise CannotStart(f"the credentials for NATS ({ENVIRONMENT}…) cannot be used: {error}") from None
    return options
