"""What a loop knows of its run: where it stands, what was accepted, counted and said. Only records change it."""

from dataclasses import dataclass, field

from coterie.engines.loop.brief import Output
from coterie.engines.loop.verdict import View
from coterie.journal.owned import OwnedTime
from coterie.topology.events import START

OUTPUTS = 4
"""How many of the last outputs a prompt shows."""


@dataclass(slots=True)
class TurnState:
    """A turn under way.

    Attributes:
        emitted: It emitted something, accepted or not.
        events: What was accepted, in order.
        routes: The last of these that leads somewhere, and *carries* what came with it.
        wave: The event that opens a wave at its end, with its *payload*; empty: none.
        completes: The event that completes the run was accepted.
        retried: An attempt did not finish: what an operator has said since is in the prompt of the next one.
        interrupted: An operator wants it to end.
        team: A team answers.
        printed: The ends of the outputs of its last failed attempt.
    """

    iteration: int
    view: View
    review: bool = False
    guidance: list[str] = field(default_factory=list)
    emitted: bool = False
    events: list[str] = field(default_factory=list)
    routes: str = ""
    carries: str = ""
    wave: str = ""
    payload: str = ""
    completes: bool = False
    retried: bool = False
    interrupted: bool = False
    team: bool = False
    printed: str = ""


@dataclass(slots=True)
class Wave:
    """A wave under way.

    Attributes:
        event: What opened it; *base* is that without its `.parallel`.
        turns: The objective of each branch, by its turn.
        outcomes: How those that have ended did: `completed`, `cancelled`, or the kind of failure.
        texts: What they said, or why they failed.
    """

    number: int
    event: str
    base: str
    turns: dict[str, str]
    outcomes: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class State:
    """Where a run stands.

    Attributes:
        position: The event that the next iteration is routed by, and *payload* what came with it.
        iteration: The iterations begun; *reviewed* is the one that was reviewed before.
        added: Iterations allowed beyond what the plan says.
        guidance: What an operator said that no iteration was given yet, by message.
        unheeded: What the last iteration was given, which did not finish: the next one is given it again.
        failure: How the last turn failed that a prompt may tell of, and in *printed* the ends of its outputs.
        failed: The kind of the last failure.
        accepted: Every event of an agent that was accepted so far.
        time: How long the run was owned, up to the last record.
        same: How many of the last outputs, none of them empty, are the same.
        apart: The last wave that was joined, until it is known what became of its branches' files; 0: none.
        version: The version of the engine that the run began under.
        stopped: A limit was reached: it is decided again when the run is taken over.
    """

    objective: str = ""
    position: str = START
    payload: str = ""
    iteration: int = 0
    reviewed: int = 0
    reviews: int = 0
    waves: int = 0
    added: int = 0
    accepted: set[str] = field(default_factory=set)
    turns: dict[str, TurnState] = field(default_factory=dict)
    wave: Wave | None = None
    outputs: list[Output] = field(default_factory=list)
    last: str = ""
    same: int = 0
    rejected: str = ""
    failure: str = ""
    printed: str = ""
    failed: str = ""
    failures: int = 0
    guidance: list[tuple[str, str]] = field(default_factory=list)
    unheeded: list[str] = field(default_factory=list)
    cost: float = 0.0
    time: OwnedTime = field(default_factory=OwnedTime)
    apart: int = 0
    version: int = 1
    stopped: bool = False
    over: bool = False

    def heard(self, output: Output, counts: bool = True) -> None:
        """Keep what was said; with *counts* as the output of an iteration that may stall."""
        if counts:
            self.same = self.same + 1 if output.text and output.text == self.last else int(bool(output.text))
            self.last = output.text
            self.outputs = [one for one in self.outputs if one.name.startswith("iteration")][-OUTPUTS + 1 :]
        self.outputs.append(output)
