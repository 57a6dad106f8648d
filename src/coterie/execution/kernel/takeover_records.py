"""Records of a takeover: which attempts continue, which were cut off, and which must be looked for first."""

from collections.abc import Callable

from coterie.execution.kernel.commands import Effect, Gather, Start
from coterie.execution.kernel.core import Core
from coterie.history.journal.records import NO_USAGE, AttemptAdopted, RunOwned, Usage
from coterie.team.planning.plan import Limits


def take_over(
    core: Core,
    now: float,
    limits: Limits,
    used: Callable[[str], Usage] = lambda turn: NO_USAGE,
    warnings: tuple[str, ...] = (),
    project: str = "",
    slept: float = 0.0,
) -> list[Effect]:
    """Begin a new epoch: record which attempts were cut off, and return the effects that continue the others.

    A child run is continued under its id and a human's question stays open. A turn that waits for gates and has not
    answered is cut off once the gates have run. Any other running attempt was cut off and is repeated, except those
    that are `in_doubt`.

    *used*: the usage that an attempt of a turn had reported by then.
    """
    epoch = core.epoch + 1
    core.write(now, RunOwned(epoch=epoch, limits=limits, warnings=warnings, project=project, slept=slept))
    effects: list[Effect] = []
    for name, turn in list(core.turns.items()):
        if turn.status != "running":
            continue
        if core.has_answered(name):
            continue  # its gates run again
        if goes_on(core, turn.ask.agent):
            names = core.duties.outside(core, turn) if not turn.used else ()
            if names:  # an earlier version of Coterie did not record them
                effects.append(Gather(turn=name, attempt=turn.attempt, names=(*names, "prompt")))
            else:
                effects.append(core.resumed(turn))
        elif not may_live_on(core, turn.ask.agent) and turn.gated is None:
            core.cut_off(now, name, "crash", used(name))
    return effects


def in_doubt(core: Core) -> list[Start]:
    """The attempts of an earlier owner that may have survived; the caller must find out for each."""
    return [
        core.resumed(turn)
        for turn in list(core.turns.values())
        if turn.status == "running"
        and turn.epoch < core.epoch
        and may_live_on(core, turn.ask.agent)
        and not core.has_answered(turn.ask.turn)
    ]


def adopt(core: Core, now: float, turn: str) -> None:
    """Record that the attempt of *turn*, which an earlier owner started, continues."""
    core.write(now, AttemptAdopted(turn=turn, attempt=core.turns[turn].attempt, epoch=core.epoch))


def may_live_on(core: Core, agent: str) -> bool:
    """Whether the next owner adopts an attempt of *agent*, if it can be found."""
    known = core.agents.get(agent)
    wants = known is not None and known.on_interrupt == "adopt"
    return wants and not core.called_off and not goes_on(core, agent)


def goes_on(core: Core, agent: str) -> bool:
    """Whether a turn of *agent* outlives its owner."""
    return not core.takes_a_slot(agent)
