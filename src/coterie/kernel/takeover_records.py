"""A folded run that another owner takes over: what goes on, what was cut off, and what must be looked for first."""

from collections.abc import Callable

from coterie.journal.records import NO_USAGE, AttemptAdopted, RunOwned, Usage
from coterie.kernel.commands import Effect, Gather, Start
from coterie.kernel.core import Core
from coterie.planning.plan import Limits


def take_over(
    core: Core,
    now: float,
    limits: Limits,
    used: Callable[[str, int], Usage] = lambda turn, attempt: NO_USAGE,
    warnings: tuple[str, ...] = (),
    project: str = "",
) -> list[Effect]:
    """Begin a new epoch: write which attempts were cut off, and return the effects of what goes on as it was.

    A child run is continued under its id and a human's question stays open; a turn that waits for gates is cut off, if
    it has not answered, once these have been run. Any other attempt in flight was cut off and
    is repeated, but for those that are `in_doubt`.

    *used*: what an attempt of a turn had reported by then.
    """
    core.write(now, RunOwned(epoch=core.epoch + 1, limits=limits, warnings=warnings, project=project))
    effects: list[Effect] = []
    for name, turn in list(core.turns.items()):
        if turn.status != "running":
            continue
        if core.has_answered(name):
            continue  # its gates are run again
        if goes_on(core, turn.ask.agent):
            names = core.duties.outside(core, turn) if not turn.used else ()
            if names:  # an earlier coterie did not record them
                effects.append(Gather(turn=name, attempt=turn.attempt, names=(*names, "prompt")))
            else:
                effects.append(core.resumed(turn))
        elif not may_live_on(core, turn.ask.agent) and name not in core.gated:
            core.cut_off(now, name, "crash", used(name, turn.attempt))
    return effects


def in_doubt(core: Core) -> list[Start]:
    """The attempts of an earlier owner that may live on: it must be decided of each whether it does."""
    return [
        core.resumed(turn)
        for turn in list(core.turns.values())
        if turn.status == "running"
        and turn.epoch < core.epoch
        and may_live_on(core, turn.ask.agent)
        and not core.has_answered(turn.ask.turn)
    ]


def adopt(core: Core, now: float, start: Start) -> None:
    """Write that the attempt of *start*, which an earlier owner started, goes on."""
    core.write(now, AttemptAdopted(turn=start.ask.turn, attempt=start.attempt, epoch=core.epoch))


def may_live_on(core: Core, agent: str) -> bool:
    """Whether an attempt of *agent* is to be adopted by the next owner, if it can be found."""
    known = core.agents.get(agent)
    wants = known is not None and known.on_interrupt == "adopt"
    return wants and not core.called_off and not goes_on(core, agent)


def goes_on(core: Core, agent: str) -> bool:
    """Whether a turn of *agent* outlives its owner."""
    return not core.takes_a_slot(agent)
