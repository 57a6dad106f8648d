"""The sidecars of the runs that one owner drives: made when a run begins or is taken over, closed when it ends."""

import os
from typing import TYPE_CHECKING

from coterie.clock import Clock
from coterie.journal.records import Record, RunOwned
from coterie.kernel.services import ShellServices
from coterie.kernel.shell import Shell
from coterie.kernel.turns import Turns
from coterie.kinds import Observe, Sidecar

if TYPE_CHECKING:
    from coterie.actors.plugins.plugins import Plugins

EXPORTERS = "COTERIE_EXPORTERS"
"""The environment variable that names exporters for the spans of every run."""


class Sidecars:
    """Lets the sidecar of each run live as long as its run has this owner.

    Args:
        clock: The source of time.
        turns: Starts the attempts of the runs.
        observe: Called with each durable record after the sidecar of its run.
    """

    def __init__(self, clock: Clock, turns: Turns, observe: Observe | None) -> None:
        self._clock, self._turns, self._observe = clock, turns, observe
        self._shell: Shell | None = None
        self._sidecars: dict[str, Sidecar] = {}
        self._exporting = exporting(os.environ.get(EXPORTERS, ""), clock)

    def attach(self, shell: Shell) -> None:
        """Set the shell that drives the runs."""
        self._shell = shell

    def observe(self, run: str, record: Record) -> None:
        """Take a durable record of *run*."""
        if isinstance(record, RunOwned):
            self._begin(run)
        for above, sidecar in self._sidecars.items():
            if run == above or run.startswith(f"{above}/"):
                sidecar.observe(run, record)
        if self._exporting is not None:
            self._exporting.tracer.observe(run, record)
        if self._observe is not None:
            self._observe(run, record)

    def _begin(self, run: str) -> None:
        live = self._shell.runs.get(run) if self._shell is not None else None
        if self._shell is None or live is None or not live.core.is_live or run in self._sidecars:
            return
        services = ShellServices(run, self._shell, self._turns, self._clock)
        started, sidecar = live.core.started, live.kind.sidecar(services)
        if sidecar is not None:
            self._sidecars[run] = sidecar
            if started is not None:
                sidecar.observe(run, started)
        if self._exporting is not None and started is not None:
            self._exporting.tracer.observe(run, started)

    def stop(self, run: str) -> bool:
        """End the sidecar of *run* in order; whether that completes the run."""
        sidecar = self._sidecars.get(run)
        return sidecar is not None and sidecar.stop()

    async def close(self) -> None:
        """Close every sidecar. Idempotent."""
        for sidecar in self._sidecars.values():
            await sidecar.close()
        if self._exporting is not None:
            await self._exporting.close()


def exporting(names: str, clock: Clock) -> "Plugins | None":
    """The exporters that *names* lists, separated by commas; None if it is empty.

    Raises:
        PluginError: If there is no such exporter, or it cannot be used.
    """
    if not names:
        return None
    from coterie.actors.plugins.plugins import Plugins
    from coterie.planning.system import PluginPlan, PluginsPlan

    listed = [PluginPlan(type=name.strip()) for name in names.split(",")]
    plugins = Plugins.from_plan(PluginsPlan(exporters=tuple(listed)), clock)
    plugins.check()
    return plugins
