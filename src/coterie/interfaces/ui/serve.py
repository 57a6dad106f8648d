"""The server of the page: its start, its address and its end."""

import asyncio
import html
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.base import files
from coterie.errors import CannotStart, ExtraMissing, UsageError
from coterie.execution.runs.repository import RunLocation
from coterie.proofs.worst_case import worst_case
from coterie.team.topology.system.fields import is_loopback

try:
    from coterie.agents.actors.http.server import HttpServer, ServerLimits, TlsFiles
    from coterie.interfaces.ui import peers
    from coterie.interfaces.ui.access import SessionAccess, guarded
    from coterie.interfaces.ui.feeds import Feed
    from coterie.interfaces.ui.home import HomeList
    from coterie.interfaces.ui.places import ServedRuns
    from coterie.interfaces.ui.routes import Api
    from coterie.interfaces.ui.stream import Feeds
    from coterie.interfaces.ui.team_file import TeamFeed
except ImportError as missing:
    raise ExtraMissing("ui", missing.name or "starlette", "the page") from None

LAST_CHANCE = 0.3
"""Seconds that open requests have to finish when the server ends."""
FOLDER = "ui"
"""The folder in the user's state directory with the port of the last start and the file that opens the browser."""


class PageOptions(Struct, frozen=True, kw_only=True):
    """The options of the server.

    Attributes:
        port: The port; 0: that of the last start if it is free, else any.
        open: Whether to open the browser, if there is a desktop.
        tls: The files of a certificate and its key.
        insecure: Whether to serve other hosts without TLS.
        run: The run to show first; empty: the list.
        file: A team's file to show instead of runs.
    """

    host: str = "127.0.0.1"
    port: int = 0
    open: bool = True
    read_only: bool = False
    tls: tuple[Path, Path] | None = None
    insecure: bool = False
    run: str = ""
    file: Path | None = None


class PageServer:
    """Serves the page for the runs of *homes* in the running event loop.

    Attributes:
        address: Its address without a code, once it has started.
    """

    address: str

    def __init__(self, homes: Sequence[RunLocation], options: PageOptions) -> None:
        check(options)
        self._options = options
        self.access = SessionAccess()
        self.places = ServedRuns(homes)
        team: dict[str, Callable[[], Feed]] = {"team": partial(TeamFeed, options.file)} if options.file else {}
        self.feeds = Feeds(self.places, HomeList(self.places, lambda plan: worst_case(plan, {}).turns), team)
        self._origins: tuple[str, ...] = ()
        self._opener: Path | None = None

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            CannotStart: If the port is busy, or a library is missing.
        """
        options = self._options
        about = {
            "homes": [home.option.strip() for home in self.places.homes],
            "cwd": os.getcwd(),
            "team": str(options.file or ""),
        }
        api = Api(self.feeds, self.access, about, None if options.read_only else self._may_not_act)
        app = guarded(api.app(), self.access, lambda: self._origins)
        tls = TlsFiles(cert=options.tls[0], key=options.tls[1]) if options.tls is not None else None
        wanted = options.port or _last_port()
        for port in dict.fromkeys((wanted, 0) if not options.port else (wanted,)):
            server = HttpServer(app, options.host, port, tls=tls, limits=ServerLimits(idle=60.0))
            try:
                await server.start()
                break
            except OSError as error:
                if port == 0 or options.port:
                    why = error.strerror or error
                    raise CannotStart(f"the page cannot listen at {options.host}:{port}: {why}") from error
        self._server = server
        port = server.address[1]
        scheme = "https" if options.tls else "http"
        names = {options.host, *(("127.0.0.1", "localhost", "::1") if is_loopback(options.host) else ())}
        if options.host in ("0.0.0.0", "::"):
            names |= {"127.0.0.1", "localhost", socket.gethostname(), *_own_addresses()}
        self._origins = tuple(f"{scheme}://{_bracketed(name).lower()}:{port}" for name in sorted(names))
        shown = socket.gethostname() if options.host in ("0.0.0.0", "::") else options.host
        self.address = f"{scheme}://{_bracketed(shown)}:{port}/"
        if not options.port:
            _keep_port(port)

    def _may_not_act(self, scope: Any) -> str:
        """The reason why the process behind a connection may not act on runs; empty: it may."""
        return peers.refusal(scope["client"], self._server.address[1], partial(peers.attempt_outside, self.places))

    def new_address(self) -> str:
        """The address with a code that can be traded once, within a minute."""
        path = f"runs/{self._options.run}" if self._options.run else "team" if self._options.file else ""
        return f"{self.address}{path}#code={self.access.new_code()}"

    def open_browser(self) -> bool:
        """Open the page in the user's browser, and return whether there is one.

        The browser is given a private file that leads on to the address, so that no list of processes shows the code.
        """
        if not has_desktop():
            return False
        with suppress(OSError, RuntimeError):
            folder = files.user_state() / FOLDER
            files.make_folder(folder)
            self._opener = folder / f"open-{secrets.token_hex(8)}.html"
            address = html.escape(self.new_address(), quote=True)
            page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}">'
            files.write(self._opener, page.encode())
            return webbrowser.open(self._opener.as_uri())
        return False

    async def wait(self) -> None:
        """Wait until the server fails; after a minute the file that opened the browser is removed."""
        removing = asyncio.create_task(self._remove_opener())
        try:
            await self._server.wait()
        finally:
            removing.cancel()

    async def stop(self) -> None:
        """End all streams, and release the port. Idempotent."""
        self.feeds.close()
        self._unlink()
        await self._server.stop(within=LAST_CHANCE)

    async def _remove_opener(self) -> None:
        await asyncio.sleep(60)
        self._unlink()

    def _unlink(self) -> None:
        if self._opener is not None:
            self._opener.unlink(missing_ok=True)


def check(options: PageOptions) -> None:
    """Check that *options* do not serve other machines without encryption.

    Raises:
        UsageError: If they do.
    """
    if not is_loopback(options.host) and options.tls is None and not options.insecure:
        raise UsageError(
            f"--host {options.host} lets other machines in: add --tls-cert FILE --tls-key FILE, or --insecure "
            "on a private network"
        )


async def serve(homes: Sequence[RunLocation], options: PageOptions, say: Callable[[str], object]) -> None:
    """Serve the page until cancelled; *say* receives the line with its address."""
    server = PageServer(homes, options)
    await server.start()
    try:
        opened = options.open and server.open_browser()
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        say(server.address if opened or not is_terminal else server.new_address())
        if sys.stdin is not None and sys.stdin.isatty() and is_terminal:
            asyncio.get_running_loop().add_reader(sys.stdin, _on_enter, server, say)
        await server.wait()
    except asyncio.CancelledError:  # its normal end
        return
    finally:
        with suppress(ValueError, OSError, AttributeError):
            asyncio.get_running_loop().remove_reader(sys.stdin)
        await server.stop()


def has_desktop() -> bool:
    """Whether a person can see a browser that is opened here."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _on_enter(server: PageServer, say: Callable[[str], object]) -> None:
    """Print a new address when the user presses Enter: the last one was used, or is too old."""
    if sys.stdin.readline():
        say(server.new_address())
    else:
        asyncio.get_running_loop().remove_reader(sys.stdin)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _own_addresses() -> set[str]:
    with suppress(OSError):
        return {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)}
    return set()


def _port_file() -> Path:
    return files.user_state() / FOLDER / "port.json"


def _last_port() -> int:
    with suppress(OSError, RuntimeError, msgspec.DecodeError):
        port: Any = msgspec.json.decode(files.read(_port_file(), 64))
        return port if isinstance(port, int) and 1024 <= port < 65536 else 0
    return 0


def _keep_port(port: int) -> None:
    with suppress(OSError, RuntimeError):
        files.make_folder(_port_file().parent)
        files.write(_port_file(), msgspec.json.encode(port))
