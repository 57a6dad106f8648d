"""The sidecars of the runs that one owner drives: made when a run begins or is taken over, closed when it ends."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from coterie.agents.backends.secrets import Secrets
from coterie.base.clock import Clock
from coterie.execution.kernel.owner import Observers
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import Turns
from coterie.execution.kinds import Sidecar
from coterie.history.journal.records import Record, RunFinished, RunOwned

if TYPE_CHECKING:
    from coterie.agents.actors.plugins.plugins import Plugins

EXPORTERS = "COTERIE_EXPORTERS"
"""The environment variable that names exporters for the spans of every run."""


class ShellServices:
    """The services of *shell* to the sidecar of *run*; see `coterie.execution.kernel.kind.RunServices`."""

    def __init__(self, run: str, shell: Shell, turns: Turns, clock: Clock) -> None:
        self.run, self.turns, self.clock = run, turns, clock
        self.core, self.events = shell.runs[run].core, shell.events
        self._shell = shell
        self.expect, self.arrived, self.defer_sync = shell.expect, shell.arrived, shell.defer_sync

    @property
    def secrets(self) -> Secrets:
        """The secrets that are redacted in everything that enters the run."""
        return self._shell.tree.secrets

    @property
    def held(self) -> Mapping[str, str]:
        """Secret values that the plan refers to."""
        return self._shell.tree.held

    @property
    def is_open(self) -> bool:
        """Whether the run can still be written to: it has neither ended nor is about to."""
        live = self._shell.runs.get(self.run)
        return live is not None and live.core.is_live and not self._shell.tree.closing

    def read(self) -> Iterator[Record]:
        """The records in the store of the run."""
        return self._shell.tree.read(self.run)

    def post(self, event: Callable[[], object], refuse: Callable[[], object] | None = None) -> None:
        """Queue *event*; if the run has ended by then or is about to, *refuse* is called instead."""

        def handle() -> None:
            if self.is_open:
                event()
                self._shell.tree.pump(self._shell.runs[self.run])
            elif refuse is not None:
                refuse()

        self._shell.post(handle)

    def write(self, record: Record, source: str = "harness") -> Record:
        """Append *record* to the run. Call this only while an event is handled."""
        return self.core.write(self.clock.now(), record, source=source)

    def finish(self, finished: RunFinished, reason: str, source: str = "harness") -> None:
        """Cancel every open turn of the run for *reason*, then end the run with *finished*."""

        def finish() -> None:
            live = self._shell.runs[self.run]
            for turn in list(live.core.open):
                live.send(*live.core.cancel(self.clock.now(), turn, reason, "harness"))
            self.write(finished, source)

        self.post(finish)


class Sidecars:
    """Keeps the sidecar of each run alive as long as its run has this owner.

    Args:
        clock: The source of time.
        turns: Starts the attempts of the runs.
        observers: The observers of the runs; it becomes one, before all others, while there is a sidecar.
    """

    def __init__(self, clock: Clock, turns: Turns, observers: Observers) -> None:
        self._clock, self._turns, self._observers = clock, turns, observers
        self._shell: Shell | None = None
        self._sidecars: dict[str, Sidecar] = {}
        self._exporting = exporting(os.environ.get(EXPORTERS, ""), clock)
        observers.of[RunOwned] = self._begin
        if self._exporting is not None:
            observers.observe.insert(0, self._exporting.tracer.observe)

    def attach(self, shell: Shell) -> None:
        """Set the shell that drives the runs."""
        self._shell = shell

    def _observe(self, run: str, record: Record) -> None:
        for above, sidecar in self._sidecars.items():
            if run == above or run.startswith(f"{above}/"):
                sidecar.observe(run, record)

    def _begin(self, run: str, record: Record) -> None:
        live = self._shell.runs.get(run) if self._shell is not None else None
        if self._shell is None or live is None or not live.core.is_live or run in self._sidecars:
            return
        services = ShellServices(run, self._shell, self._turns, self._clock)
        started, sidecar = live.core.started, live.kind.sidecar(services)
        if sidecar is not None:
            if not self._sidecars:
                self._observers.observe.insert(0, self._observe)
            self._sidecars[run] = sidecar
            if started is not None:
                sidecar.observe(run, started)
        if self._exporting is not None and started is not None:
            self._exporting.tracer.observe(run, started)

    def stop(self, run: str) -> bool:
        """Shut down the sidecar of *run* in order; return whether that completes the run."""
        sidecar = self._sidecars.get(run)
        return sidecar is not None and sidecar.stop()

    async def close(self) -> None:
        """Close every sidecar. Idempotent."""
        for sidecar in self._sidecars.values():
            await sidecar.close()
        if self._exporting is not None:
            await self._exporting.close()


def exporting(names: str, clock: Clock) -> "Plugins | None":
    """The exporters in *names*, separated by commas; None if it is empty.

    Raises:
        PluginError: If there is no such exporter, or it cannot be used.
    """
    if not names:
        return None
    from coterie.agents.actors.plugins.plugins import Plugins
    from coterie.team.planning.system import PluginPlan, PluginsPlan

    listed = [PluginPlan(type=name.strip()) for name in names.split(",")]
    plugins = Plugins.from_plan(PluginsPlan(exporters=tuple(listed)), clock)
    plugins.check()
    return plugins
