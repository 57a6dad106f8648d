"""The routes of a gateway: find the agent and the parameters for a method and a path."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from coterie.team.topology.system.fields import RouteFields

_PARAMETER = re.compile(r"\{([A-Za-z_]\w*)\}")


class GatewayRoute(Struct, frozen=True, kw_only=True):
    """A route.

    Attributes:
        path: With parameters as `{name}` segments.
        agent: The agent; empty: the path parameter `name` names it.
        mode: `call`, `cast` or `state`.
    """

    path: str
    method: str
    agent: str = ""
    mode: str = "call"

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in its path, in order."""
        return _PARAMETER.findall(self.path)


DEFAULT_ROUTES: Final = (
    GatewayRoute(path="/agents/{name}", method="POST"),
    GatewayRoute(path="/agents/{name}/cast", method="POST", mode="cast"),
    GatewayRoute(path="/agents/{name}/state", method="GET", mode="state"),
)
"""The default routes of a gateway."""


class NoRoute(Exception):
    """No route has this path, or (with *allowed*) only routes for other methods have it."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self.allowed = sorted(set(allowed))
        super().__init__(", ".join(self.allowed))


class Router:
    """Finds the first route that matches."""

    def __init__(self, routes: Sequence[RouteFields]) -> None:
        declared = [GatewayRoute(path=r.path, method=r.method, agent=r.agent, mode=r.mode) for r in routes]
        self.routes: Sequence[GatewayRoute] = declared or DEFAULT_ROUTES
        self._fixed: dict[tuple[str, ...], dict[str, GatewayRoute]] = {}
        self._matched: list[tuple[_Pattern, GatewayRoute]] = []
        for route in self.routes:
            segments = tuple(route.path.split("/"))
            if not route.parameters and all(known.match(segments) is None for known, _ in self._matched):
                self._fixed.setdefault(segments, {}).setdefault(route.method, route)
            else:
                self._matched.append((_Pattern(segments), route))

    def find(self, method: str, raw_path: str) -> tuple[GatewayRoute, Mapping[str, str]]:
        """The route of a request, and the parameters in its path.

        Args:
            raw_path: The path as it was sent: `%2F` is not a separator.

        Raises:
            NoRoute: If there is none.
            UnicodeDecodeError: If a segment is not UTF-8.
        """
        segments = tuple(raw_path.split("/"))
        if "%" in raw_path:
            segments = tuple(unquote_to_bytes(segment).decode() for segment in segments)
        fixed = self._fixed.get(segments, {})
        if method in fixed:
            return fixed[method], {}
        allowed = list(fixed)
        for pattern, route in self._matched:
            if (given := pattern.match(segments)) is not None:
                if route.method == method:
                    return route, given
                allowed.append(route.method)
        raise NoRoute(allowed)


class _Pattern:
    """The segments of a route's path: those that are fixed, and the parameters."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._count = len(parts)
        self._given = [(part[1:-1], at) for at, part in enumerate(parts) if _PARAMETER.fullmatch(part)]
        self._fixed = [(part, at) for at, part in enumerate(parts) if not _PARAMETER.fullmatch(part)]

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The parameters of a path with these *segments*, none of them empty; None if it has another pattern."""
        if len(segments) != self._count:
            return None
        for part, at in self._fixed:
            if segments[at] != part:
                return None
        given = {name: segments[at] for name, at in self._given}
        return given if all(given.values()) else None
