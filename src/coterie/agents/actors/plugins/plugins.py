"""The plugins of a system."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

from coterie.agents.actors.plugins.base import Exporter, ModelProvider
from coterie.agents.actors.plugins.loading import each, make
from coterie.agents.actors.plugins.reports import report
from coterie.agents.actors.plugins.router import ModelRouter
from coterie.agents.actors.plugins.toolbox import Toolbox
from coterie.agents.actors.plugins.tracing import Tracer
from coterie.agents.actors.state.base import StateStore
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.base.clock import Clock
from coterie.base.user_code import contained
from coterie.team.planning.system import PluginsPlan

CLOSING = 1.0
"""Seconds for all models and exporters together to close."""


class Plugins:
    """The plugins that the agents of a system share: models, tools, exporters and the state store.

    Args:
        state: The state store; by default in memory.
        clock: The clock for spans.
        defaults: Providers to use if *models* is empty; they need not be usable.
    """

    def __init__(
        self,
        models: Sequence[ModelProvider] = (),
        tools: Sequence[Callable[..., Any]] = (),
        exporters: Sequence[Exporter] = (),
        state: StateStore | None = None,
        clock: Clock | None = None,
        defaults: Sequence[ModelProvider] = (),
    ) -> None:
        self._is_closed = False
        self.state: StateStore = state if state is not None else InMemoryStateStore()
        self.tracer = Tracer(exporters, clock)
        self.tools = Toolbox(tools)
        self.models = ModelRouter(models or defaults, self.tools, self.tracer)
        self._declared = (*models, *exporters, self.state)

    @classmethod
    def from_plan(cls, plan: PluginsPlan, clock: Clock | None = None) -> Self:
        """Make the plugins that *plan* names.

        Raises:
            PluginError: If one cannot be found, imported or constructed.
        """
        made: dict[str, list[Any]] = {"model": [], "tool": [], "exporter": [], "state": []}
        for kind, place, one in each(plan):
            made[kind].append(make(kind, one, place))
        return cls(made["model"], made["tool"], made["exporter"], next(iter(made["state"]), None), clock)

    def check(self) -> None:
        """Check that each can be used: libraries are installed, keys are set. Called before agents start.

        Raises:
            CoterieError: If one cannot be used.
        """
        for plugin in self._declared:
            check = getattr(plugin, "check", None)
            if check is not None:
                check()

    async def close(self) -> None:
        """Close all plugins. Idempotent.

        Failures are reported, and so are models and exporters that take longer than a second.
        """
        if self._is_closed:
            return
        self._is_closed = True

        async def closed(plugin: object, seconds: float | None) -> None:
            close = getattr(plugin, "close", None) or getattr(plugin, "shutdown", None)
            if close is None:
                return
            try:
                with contained():
                    async with asyncio.timeout(seconds):
                        await close()
            except TimeoutError:
                report(f"{type(plugin).__name__} did not close within {seconds:g} s")
            except Exception as error:  # foreign code
                report(f"{type(plugin).__name__} did not close: {type(error).__name__}: {error}")

        await asyncio.gather(
            *(closed(one, CLOSING) for one in (*self.models.providers, *self.tracer.exporters)),
            closed(self.state, None),  # it may have to finish its writes
        )
