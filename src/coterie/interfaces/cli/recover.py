"""`coterie recover`: resume the runs whose processes ended."""

from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import HomeOptions
from coterie.interfaces.cli.output import complain, print_result
from coterie.interfaces.cli.parameters import Opt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.execution.runs.recovery import Recovery


def recover(
    at_once: Annotated[
        int | None, Opt("--at-once N", "How many runs are driven at the same time; by default 8.")
    ] = None,
    as_json: Annotated[bool, Opt("--json", "Print JSON.")] = False,
    *,
    home: HomeOptions,
) -> int:
    """Resume the runs of this directory whose processes ended.

    These are runs that were cut off, or stopped because their process got a signal to end, and those that waited for a
    quota or an answer that has come. A run that you stopped, or a limit, stays stopped: `coterie resume` continues it.
    A run that was recovered three times without getting further is only listed. The exit status is 1 if a run could not
    be resumed, or failed.
    """
    from pathlib import Path

    from coterie.errors import UsageError
    from coterie.execution.runs.recovery import recover as recover_runs
    from coterie.interfaces.cli.signals import drive

    if not isinstance(where := home.where, Path):
        raise UsageError("the cluster recovers its runs itself: `coterie recover` is for those of a directory")
    found = drive(recover_runs(where, at_once=at_once or 8))
    for one in found:
        if one.why:
            complain(f"{one.run} was not resumed: {one.why}")

    def lines() -> "Iterator[str]":
        for one in found:
            if one.outcome is not None:
                yield f"{one.run}  {one.outcome.status}  {one.outcome.reason}".rstrip()

    print_result(as_json, [_as_data(one) for one in found], lambda: "\n".join(lines()) or "no run was recovered")
    return int(any(one.outcome is None or one.outcome.status == "failed" for one in found))


def _as_data(one: "Recovery") -> dict[str, str]:
    found = {"run": one.run, "why": one.why}
    return found if one.outcome is None else {**found, "status": one.outcome.status, "reason": one.outcome.reason}
