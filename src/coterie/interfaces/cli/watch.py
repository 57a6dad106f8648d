"""`coterie watch`: follow a run that another process drives, without changing anything."""

from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING

from coterie.interfaces.cli.options import AsJson, HomeOptions, Run
from coterie.interfaces.cli.output import complain, is_dropped, say, say_json, width

if TYPE_CHECKING:
    from coterie.execution.runs.repository import Runs


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
    from coterie.agents.backends.base import AttemptRef
    from coterie.execution.runs.run_stream import RunStream
    from coterie.history.journal.records import Record
    from coterie.interfaces.cli.watcher import choose

    stream = RunStream(runs, run, text=not as_json and width() is not None)
    async with aclosing(stream.follow()) as items:
        with nullcontext() if as_json else choose(True, False, as_result=True) as shown:
            async for one in items:
                if shown is None:
                    say_json({"run": one.run, "record": one.what})
                elif isinstance(one.what, Record):
                    shown.observe(one.run, one.what)
                else:
                    shown.on_event(AttemptRef(run=one.run, turn=one.turn, attempt=one.attempt), one.what)
                if is_dropped():
                    return
