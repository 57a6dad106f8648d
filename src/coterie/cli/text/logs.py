"""Text for what agents print."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.runs.attempt_output import Printed


class OutputLines:
    """Makes whole lines, each with its turn, of pieces of output.

    Args:
        run: The run that is shown; turns of child runs are written with their path below it.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, str] = {}

    def add(self, printed: "Printed") -> str:
        """Return the lines that *printed* completes; empty if there is none yet."""
        turn = f"{printed.run}/{printed.turn}".removeprefix(f"{self._run}/")
        attempt = f".{printed.attempt}" if printed.attempt > 1 else ""
        head = f"{turn}{attempt} {'!' if printed.channel == 'log' else '|'} "
        *whole, rest = (self._open.pop(head, "") + printed.text).split("\n")
        if rest:
            self._open[head] = rest
        return "\n".join(f"{head}{line}" for line in whole)

    def rest(self) -> str:
        """Return the last lines, which did not end."""
        return "\n".join(f"{head}{line}" for head, line in self._open.items())
