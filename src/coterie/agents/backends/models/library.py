"""Load the libraries that call models, which takes a second or two, and open the HTTP client that they share."""

import sys
import threading
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from coterie.agents.backends.models.cassette import Cassette
from coterie.agents.backends.models.threads import in_thread
from coterie.base.waits import waiting

if TYPE_CHECKING:
    import httpx2

_PACKAGE = "coterie.agents.backends.models"
_READ_TIMEOUT = 600.0
"""Seconds without a byte from a provider until the connection counts as broken."""
_CONNECT_TIMEOUT = 10.0

_loading = threading.Lock()
_loaded: set[str] = set()


def load(module: str, *others: str) -> Any:
    """Import modules of this package and return the first; called in a thread."""
    # two threads that import modules which import each other would see them half initialised
    with waiting("the model library to load"), _loading:
        for name in others:
            import_module(f"{_PACKAGE}.{name}")
        first = import_module(f"{_PACKAGE}.{module}")
        _loaded.update((module, *others))
        return first


async def load_once(module: str, *others: str) -> Any:
    """`load`, in a thread unless all has been loaded."""
    if _loaded.issuperset((module, *others)):
        return sys.modules[f"{_PACKAGE}.{module}"]
    return await in_thread(partial(load, module, *others), "load")


def open_client(cassette: Cassette | None, environment: Mapping[str, str]) -> "httpx2.AsyncClient":
    """An HTTP client for providers, which answers from *cassette* if there is one."""
    import httpx2

    from coterie.agents.backends.models.response_guard import guard_response

    transport: httpx2.AsyncBaseTransport | None = None
    if cassette is not None:
        from coterie.agents.backends.models.transport import CassetteTransport

        proxy = environment.get("HTTPS_PROXY") or environment.get("https_proxy") or None
        transport = CassetteTransport(cassette, httpx2.AsyncHTTPTransport(proxy=proxy))
    timeout = httpx2.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT)
    return httpx2.AsyncClient(
        timeout=timeout,
        transport=transport,
        follow_redirects=False,
        headers={
            "accept-encoding": "identity"
        },  # the limits are those of what was sent, a few bytes of which unpack to gigabytes
        event_hooks={"response": [guard_response]},
    )
