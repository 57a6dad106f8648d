"""Text for the results of crash schedules."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coterie.history.views.words import duration, listed
from coterie.interfaces.cli.text.words import table

if TYPE_CHECKING:
    from coterie.testing.series import Broken, Series


def simulated(found: "Series") -> str:
    """Return the results of a series: only what was checked or counted in every schedule."""
    if not found.schedules:
        return "no schedule finished"
    return "\n".join([_head(found), *_ends(found), "", _agents(found), "", *_held(found)])


def broken(what: "Broken", file: str, again: str) -> str:
    """Return the violated guarantee, the file of its records, and the command that repeats it."""
    return f"seed {what.seed} violated a guarantee: {what.what}\nits records: {file}\nrepeat it with:\n  {again}"


def so_far(found: "Series", schedules: int, seconds: float) -> str:
    """Return the progress of a series."""
    return f"{found.schedules:,} of {schedules:,} schedules, {speed(found, seconds)}"


def speed(found: "Series", seconds: float) -> str:
    """Return the number of schedules per second."""
    return f"{found.schedules / max(seconds, 1e-9):,.0f} a second"


def _head(found: "Series") -> str:
    kinds = [f"{_count(found.crashes, 'crash', 'crashes')} in {found.crashed:,} of them"]
    if found.in_a_row:
        kinds.append(f"{found.in_a_row:,} right after another")
    kinds.append(_count(found.interruptions, "interruption", "interruptions"))
    return f"survived {_count(found.schedules, 'crash schedule', 'crash schedules')} ({', '.join(kinds)})"


def _ends(found: "Series") -> Iterable[str]:
    ended = ", ".join(f"{outcome} {n:,}" for outcome, n in sorted(found.outcomes.items()))
    yield f"outcomes: {ended}; simulated agents answer, fail and take time at random"
    turns, longest = _count(found.turns, "turn", "turns"), duration(found.seconds)
    yield f"worst case: {turns} (seed {found.turns_seed}), {longest} of virtual time (seed {found.seconds_seed})"


def _agents(found: "Series") -> str:
    rows = [(name, str(one.turns), str(one.attempts), str(one.cut)) for name, one in found.agents.items()]
    return table(rows, ("at worst", "turns in a run", "attempts of a turn", "of them interrupted"))


def _held(found: "Series") -> Iterable[str]:
    once = [name for name, one in found.agents.items() if one.turns == 1]
    never = [name for name, one in found.agents.items() if one.turns == 0]
    yield "in every schedule"
    yield "  the result was that of an uncrashed run with the same replies"
    yield f"  no turn with a durable result was started again ({found.receipts:,} results)"
    yield f"  nothing started before its records were durable ({found.starts:,} starts)"
    yield "  nothing followed the end, and a replay left nothing to do"
    if once:
        yield f"  {listed(once)} had no second turn; interrupted attempts were retried"
    if never:
        yield f"  {listed(never)} had no turn at all"


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
