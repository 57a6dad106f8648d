"""`coterie watch`: follow a run that another process drives, without changing anything."""

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from coterie.interfaces.cli.options import AsJson, HomeOptions, Run
from coterie.interfaces.cli.output import complain, say, say_json, width

if TYPE_CHECKING:
    from coterie.execution.runs.repository import Runs
    from coterie.interfaces.cli.watcher import Watch


def watch(run: Run = "last", as_json: AsJson = False, *, home: HomeOptions) -> int:
    """Follow a run, from its beginning, until no process drives it.

    Shows a live tree on a terminal, else one line per event; --json prints every record on a line. Does not affect the
    run: Ctrl-C ends only the watching.
    """
    from coterie.execution.runs.repository import find
    from coterie.interfaces.cli.signals import drive

    runs, run = find(run, home.where)
    drive(_show(runs, run, as_json), lambda: "no longer watching; the run continues")
    if not as_json:
        status = runs.store.status(run)
        say(f"{run}: {status.state}")
        from coterie.interfaces.cli.views import why_it_stands

        if why := why_it_stands(runs, run):
            complain(why)
    return 0


async def _show(runs: "Runs", run: str, as_json: bool) -> None:
    import asyncio

    from coterie.interfaces.cli.watcher import choose

    async with aclosing(runs.follow(run)) as news:
        if as_json:
            async for which, record in news:
                say_json({"run": which, "record": record})
            return
        with choose(True, False, as_result=True) as shown:
            printed = asyncio.ensure_future(_show_printed(runs, run, shown)) if width() is not None else None
            try:
                async for which, record in news:
                    shown.observe(which, record)
            finally:
                if printed is not None:
                    printed.cancel()
                    with suppress(asyncio.CancelledError):
                        await printed


async def _show_printed(runs: "Runs", run: str, shown: "Watch") -> None:
    """Pass the agents' output on to the display."""
    from coterie.execution.runs.attempt_output import AttemptOver, Attended, StreamReader

    async for one in StreamReader(runs, run).follow():
        if not isinstance(one.event, Attended | AttemptOver):  # the records say it, too
            shown.on_event(one.ref, one.event)
