"""Access to the server of the page: only sessions that it opened itself may use it, from its own page.

A code is traded once for the secret of the session. The page sends the secret in a header that no other page and no
form can send. There is no cookie: a browser does not separate cookies by port, and an agent can open a port.
"""

import hmac
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import json
from starlette.datastructures import Headers
from starlette.responses import Response

from coterie.agents.actors.http.server import App

VALID_FOR: Final = 60.0
"""Seconds for which a code can be traded."""
HEADER: Final = "x-coterie"
"""The header that a state change needs; a form cannot send it, and another page only after a preflight."""
IMPORTS: Final = '{"imports":{"page/":"/"}}'
"""The import map of the page, which the document contains: `page/NAME` is the module `/NAME`."""
POLICY: Final = (
    "default-src 'self'; "
    f"script-src 'self' 'sha256-{b64encode(sha256(IMPORTS.encode()).digest()).decode()}'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class SessionAccess:
    """The codes and the secret of one server.

    Args:
        now: Seconds that never go back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._secret = secrets.token_urlsafe(32)
        self._codes: dict[str, float] = {}

    def new_code(self) -> str:
        """A code that one trade within `VALID_FOR` seconds accepts."""
        code, now = secrets.token_urlsafe(24), self._now()
        self._codes = {known: until for known, until in self._codes.items() if until >= now} | {code: now + VALID_FOR}
        return code

    def trade(self, code: str) -> str:
        """Trade *code*, which then becomes invalid, for the secret of the session; empty if it is not valid."""
        for known, until in [*self._codes.items()]:
            if hmac.compare_digest(known.encode(), code.encode("utf-8", "replace")):
                del self._codes[known]
                return self._secret if self._now() <= until else ""
        return ""

    def knows(self, authorization: str) -> bool:
        """Whether the value of the header is the secret of this session."""
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._secret.encode())
        return same and scheme.lower() == "bearer"


def refusal(
    headers: Mapping[str, str], method: str, path: str, origins: Iterable[str], access: SessionAccess
) -> tuple[int, str]:
    """The status and the reason of a refused request; the status is 0 if it is accepted.

    Args:
        origins: The allowed origins of the page, such as `http://127.0.0.1:7411`.
    """
    hosts = {origin.partition("://")[2]: origin for origin in origins}
    host = headers.get("host", "").lower()
    if host not in hosts:
        return 421, "this host is not served here"
    if headers.get("origin", hosts[host]) != hosts[host]:
        return 403, "another page may not do this"
    is_api = path.startswith("/api/")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and (is_api or method != "GET"):
        return 403, "another page may not do this"
    if not is_api:
        return (0, "") if method in ("GET", "HEAD") else (405, "this can only be read")
    if path != "/api/session" and not access.knows(headers.get("authorization", "")):
        return 401, "the secret of this session is missing or old: run `coterie ui` again"
    if method not in ("GET", "HEAD"):
        if HEADER not in headers:
            return 403, f"the header {HEADER} is missing"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "the body must be application/json"
    return 0, ""


def guarded(app: App, access: SessionAccess, origins: Callable[[], Iterable[str]]) -> App:
    """Wrap *app*, so that only the page of this server can use it, with the secret of its session."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name.encode(): value.encode() for name, value in HEADERS.items()}
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
                message["headers"] = [*kept, *own.items()]
            await send(message)

        headers = Headers(scope=scope)
        status, why = refusal(headers, scope["method"], scope["path"], origins(), access)
        response = Response(json.encode({"error": why}), status, media_type="application/json") if status else None
        await (response or app)(scope, receive, sealed)

    return guard
