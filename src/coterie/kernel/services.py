"""What the owner of a run does for what lives beside the run; see `coterie.kernel.kind.RunServices`."""

from collections.abc import Callable, Iterator, Mapping

from coterie.backends.secrets import Secrets
from coterie.clock import Clock
from coterie.journal.records import Record, RunFinished
from coterie.kernel.shell import Shell
from coterie.kernel.turns import Turns


class ShellServices:
    """The services of *shell* to what lives beside *run*."""

    def __init__(self, run: str, shell: Shell, turns: Turns, clock: Clock) -> None:
        self.run, self.turns, self.clock = run, turns, clock
        self.core, self.events = shell.runs[run].core, shell.events
        self._shell = shell

    @property
    def secrets(self) -> Secrets:
        """The secrets that are redacted in everything that enters the run."""
        return self._shell.tree.secrets

    @property
    def held(self) -> Mapping[str, str]:
        """Values that the plan refers to."""
        return self._shell.tree.held

    @property
    def is_open(self) -> bool:
        """Whether the run may still be written: it has neither ended nor is about to."""
        live = self._shell.runs.get(self.run)
        return live is not None and live.core.is_live and not self._shell.tree.closing

    def read(self) -> Iterator[Record]:
        """The records that the store of the run has."""
        return self._shell.tree.read(self.run)

    def post(self, event: Callable[[], object], refuse: Callable[[], object] = str) -> None:
        """Have *event* handled in its turn, or *refuse* if the run has ended by then or is about to."""

        def handle() -> None:
            if self.is_open:
                event()
                self._shell.tree.pump(self._shell.runs[self.run])
            else:
                refuse()

        self._shell.post(handle)

    def write(self, record: Record, source: str = "harness") -> Record:
        """Append *record* to the run; only while an event is handled."""
        return self.core.write(self.clock.now(), record, source=source)

    def finish(self, finished: RunFinished, reason: str, source: str = "harness") -> None:
        """Have every turn of the run that has not ended cancelled for *reason*, and then the run ended."""

        def finish() -> None:
            live = self._shell.runs[self.run]
            for turn in list(live.core.turns):
                live.outbox += live.core.cancel(self.clock.now(), turn, reason, "harness")
            self.write(finished, source)

        self.post(finish)

    def defer_sync(self, turns: int) -> None:
        """Let other tasks run for up to *turns* turns of the event loop before the next sync, to share it."""
        self._shell.defer_sync(turns)

    def expect(self) -> None:
        """Have the run kept while nothing in it runs, until `arrived` is called."""
        self._shell.expect()

    def arrived(self) -> None:
        """No longer have the run kept."""
        self._shell.arrived()
