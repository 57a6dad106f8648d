"""Text for what agents print and do."""

from typing import TYPE_CHECKING

from coterie.agents.backends.base import Permission, SessionOpened, Stepped, Text, Tool, Used
from coterie.execution.runs.attempt_output import AttemptOver, Attended
from coterie.history.views.words import request_answered

if TYPE_CHECKING:
    from coterie.execution.runs.attempt_output import Heard
    from coterie.execution.runs.run_stream import Streamed


class OutputLines:
    """Joins pieces of output to whole lines, each with its turn; a tool and an answered request are separate lines.

    Args:
        run: The run that is shown; turns of child runs are written with their path below it.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, str] = {}

    def add(self, heard: "Heard") -> str:
        """Return the lines that *heard* completes; empty if there is none yet."""
        turn = f"{heard.run}/{heard.turn}".removeprefix(f"{self._run}/")
        name = f"{turn}.{heard.attempt}" if heard.attempt > 1 else turn
        match heard.event:
            case Text(text=text, channel=channel):
                return self._printed(f"{name} {'!' if channel == 'log' else '|'} ", text)
            case Tool() | Permission() | SessionOpened() | Used() as event:
                return self._apart(name, ">", said) if (said := deed(event)) else ""
            case Stepped(n=n, calls=calls):
                return self._apart(name, "=", request_answered(n, calls))
            case Attended(text=text):
                return self._apart(name, "?", text)
            case AttemptOver():
                return self._rest(f"{name} ")

    def _apart(self, name: str, sign: str, text: str) -> str:
        """Separate lines for *text*, after an answer that has not ended its line."""
        head = f"{name} | "
        unfinished = self._open.pop(head, "")
        lines = [f"{name} {sign} {line}".rstrip() for line in text.split("\n")]
        return "\n".join([*([head + unfinished] if unfinished else []), *lines])

    def _printed(self, head: str, text: str) -> str:
        *whole, rest = (self._open.pop(head, "") + text).split("\n")
        if rest:
            self._open[head] = rest
        return "\n".join(f"{head}{line}" for line in whole)

    def rest(self) -> str:
        """End the lines that are open, and return them."""
        return self._rest("")

    def _rest(self, of: str) -> str:
        """End the open lines that begin with *of*."""
        heads = [head for head in self._open if head.startswith(of)]
        return "\n".join(f"{head}{self._open.pop(head)}" for head in heads)


def deed(event: "Streamed") -> str:
    """An event of an agent in one line; empty for a successful end of a tool and for a permission given."""
    match event:
        case Tool(name=name, state="started", detail=detail):
            return f"{name}: {detail}" if detail else name
        case Tool(name=name, state="failed", result=result):
            return f"{name} failed: {result}" if result else f"{name} failed"
        case Permission(tool=tool, detail=detail, decision=""):
            return f"{tool} needs permission: {detail}" if detail else f"{tool} needs permission"
        case Permission(tool=tool, decision="denied", why=why):
            return f"{tool} was denied ({why})" if why else f"{tool} was denied"
    return ""
