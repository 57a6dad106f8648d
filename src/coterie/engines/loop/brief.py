"""What a turn of a loop is told, beside what its plan says: the engine knows it, the prompt shows it."""

from msgspec import Struct

from coterie.engines.loop.verdict import View


class Output(Struct, frozen=True, kw_only=True):
    """What an earlier turn said. *name* is `iteration 3`, or `wave 1, branch 2: <objective>`."""

    name: str
    text: str = ""


class Brief(Struct, frozen=True, kw_only=True):
    """What the turn *turn* is told.

    Attributes:
        iteration: Its number, from 1; for a review that of the iteration it comes before.
        most: Iterations the run may have.
        objective: What the run is for.
        view: What it may emit.
        payload: What came with the event that led here.
        rejected: The last event that was rejected and why, if nothing was accepted since; else empty.
        failure: How the turn before failed; else empty.
        printed: The ends of the outputs of that turn.
        guidance: What an operator said since the turn before, and since this one began if it is tried again.
        outputs: What was said lately, oldest first.
        accepted: The events of an earlier attempt of this turn that were accepted: it was cut off after them.
        team: A team is told, which emits nothing by itself.
    """

    turn: str
    iteration: int
    most: int
    objective: str = ""
    view: View = View()
    payload: str = ""
    rejected: str = ""
    failure: str = ""
    printed: str = ""
    guidance: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    accepted: tuple[str, ...] = ()
    team: bool = False
