"""The state of a loop: position, accepted events, counts and outputs. Only records change it."""

from msgspec import Struct, field

from coterie.history.engines.loop.prompt_state import TurnOutput
from coterie.history.engines.loop.verdict import View
from coterie.history.engines.versions import EngineRules
from coterie.history.journal.owned import OwnedTime
from coterie.team.topology.events import START

OUTPUTS = 4
"""The number of recent outputs that a prompt shows."""


class TurnState(Struct):
    """A running turn.

    Attributes:
        emitted: Whether it emitted an event, accepted or not.
        events: The accepted events, in order.
        firsts: Those that no turn had emitted before.
        routes: The last of these that routes, and *carries* its payload.
        wave: The event that opens a wave at the end of the turn, and *payload* its payload; empty if there is none.
        completes: Whether the event that completes the run was accepted.
        lost: Whether the files that the attempt under way has left are lost; its gates may still run.
        retried: Whether an attempt did not finish; the prompt of the next one shows guidance that came since.
        interrupted: Whether an operator interrupted it.
        team: Whether a team plays the role.
        printed: The end of the output of its last failed attempt.
    """

    iteration: int
    view: View
    review: bool = False
    guidance: list[str] = []
    emitted: bool = False
    events: list[str] = []
    firsts: set[str] = set()
    routes: str = ""
    carries: str = ""
    wave: str = ""
    payload: str = ""
    completes: bool = False
    lost: bool = False
    retried: bool = False
    interrupted: bool = False
    team: bool = False
    printed: str = ""

    def void(self) -> None:
        """Drop the events of the running attempt."""
        self.events, self.firsts, self.completes = [], set(), False
        self.routes = self.carries = self.wave = self.payload = ""


class Wave(Struct):
    """A running wave.

    Attributes:
        event: The event that opened it; *base* is the same without `.parallel`.
        turns: The objective of each branch, by its turn.
        outcomes: The outcomes of ended branches: `completed`, `cancelled`, or the kind of failure.
        texts: Their outputs, or the reasons of their failures.
    """

    number: int
    event: str
    base: str
    turns: dict[str, str]
    outcomes: dict[str, str] = {}
    texts: dict[str, str] = {}


class State(Struct):
    """The state of a run.

    Attributes:
        position: The event that routes the next iteration, and *payload* its payload.
        iteration: The number of begun iterations; *reviewed* is the last one that a review preceded.
        added: Iterations allowed beyond the limit of the plan.
        guidance: Pairs of message and text from operators that no iteration has shown yet.
        unheeded: Guidance of the last iteration, which did not finish; the next one shows it again.
        promise_refused: Why the promise in the last output did not count; empty if there was none.
        gated: Whether a gate has failed, and no event was accepted since.
        failure: The last failure that a prompt may show, and *printed* the end of that turn's output.
        failed: The kind of the last failure.
        accepted: All accepted events of agents.
        time: How long the run was owned, up to the last record.
        same: How many of the last outputs are equal and not empty.
        unmerged: The last joined wave, until the work of its branches is merged or kept; 0 if there is none.
        rules: Those of the version of the engine that began the run.
        stopped: Whether a limit was reached; it is checked again when the run is resumed.
    """

    objective: str = ""
    position: str = START
    payload: str = ""
    iteration: int = 0
    reviewed: int = 0
    reviews: int = 0
    waves: int = 0
    added: int = 0
    accepted: set[str] = set()
    turns: dict[str, TurnState] = {}
    wave: Wave | None = None
    outputs: list[TurnOutput] = []
    last: str = ""
    same: int = 0
    rejected: str = ""
    promise_refused: str = ""
    gated: bool = False
    failure: str = ""
    printed: str = ""
    failed: str = ""
    failures: int = 0
    guidance: list[tuple[str, str]] = []
    unheeded: list[str] = []
    cost: float = 0.0
    time: OwnedTime = field(default_factory=OwnedTime)
    unmerged: int = 0
    rules: EngineRules = EngineRules()
    stopped: bool = False
    over: bool = False

    def add_output(self, output: TurnOutput, counts: bool = True) -> None:
        """Keep *output*; if it *counts*, it is the output of an iteration, which may stall."""
        if counts:
            self.same = self.same + 1 if output.text and output.text == self.last else int(bool(output.text))
            self.last = output.text
            self.outputs = [one for one in self.outputs if one.name.startswith("iteration")][-OUTPUTS + 1 :]
        self.outputs.append(output)
