"""What the engine knows about a turn, for its prompt."""

from msgspec import Struct

from coterie.history.engines.loop.verdict import View


class TurnOutput(Struct, frozen=True, kw_only=True):
    """The output of an earlier turn. *name* is `iteration 3`, or `wave 1, branch 2: <objective>`."""

    name: str
    text: str = ""


class PromptState(Struct, frozen=True, kw_only=True):
    """The state of the run that the prompt of the turn *turn* shows.

    Attributes:
        iteration: Its number, from 1; for a review that of the next iteration.
        most: The most iterations of the run.
        objective: The purpose of the run.
        view: The events it may emit.
        payload: The payload of the event that led here.
        rejected: The last rejected event with the reason, if none was accepted since; else empty.
        promise_refused: Why the promise in the previous output did not count; else empty.
        failure: The failure of the previous turn; else empty.
        printed: The end of the output of that turn.
        guidance: The operator's messages since the previous turn and, in a retry, since this one began.
        outputs: The recent outputs, oldest first.
        accepted: The accepted events of an earlier attempt of this turn, which was cut off.
        team: Whether the role is played by a team, which cannot emit events.
    """

    turn: str
    iteration: int
    most: int
    objective: str = ""
    view: View = View()
    payload: str = ""
    rejected: str = ""
    promise_refused: str = ""
    failure: str = ""
    printed: str = ""
    guidance: tuple[str, ...] = ()
    outputs: tuple[TurnOutput, ...] = ()
    accepted: tuple[str, ...] = ()
    team: bool = False
