"""`coterie submit` and `coterie serve`: runs on many machines."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.loop_options import LoopOptions, loop_given
from coterie.cli.options import AsJson, Backend, Cluster, InputFile, LimitOptions, Named, Prompt, Set
from coterie.cli.output import complain, print_result, say, say_json

if TYPE_CHECKING:
    from coterie.cluster.address import ClusterAddress
    from coterie.runs.outcome import Outcome


def _address(given: str | None) -> "ClusterAddress":
    from coterie.cluster.address import FORM, ClusterAddress
    from coterie.errors import UsageError

    if (address := ClusterAddress.given(given)) is None:
        raise UsageError(f"which cluster? write --cluster {FORM}, or set COTERIE_CLUSTER")
    return address


def submit(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An .at or .yaml file, the folder of a loop, or a preset.")
    ],
    prompt: Prompt = None,
    named: Named = None,
    input_file: InputFile = None,
    params: Set = None,
    backend: Backend = None,
    id: Annotated[
        str, typer.Option("--id", metavar="ID", help="The run's id: submitted again, it is the same run.")
    ] = "",
    no_files: Annotated[
        bool, typer.Option("--no-files", help="Send no files along: the nodes have what the agents need.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended, and print its outcome.")] = False,
    cluster: Cluster = None,
    as_json: AsJson = False,
    *,
    limits: LimitOptions,
    loop: LoopOptions,
) -> int:
    """Have a cluster run a team; print the id of the run.

    The nodes of the cluster (`coterie serve`) drive the run and perform its turns, each on the queue that its agent
    names. It goes on whatever becomes of this machine, or of any of those.

    Exit status: 0 once it is submitted; with --wait as for `coterie run`.
    """
    from coterie.cli.inputs import gather
    from coterie.cli.run import plan_for
    from coterie.cli.signals import drive
    from coterie.cli.text import outcomes as text
    from coterie.cluster.address import connected
    from coterie.cluster.files import around
    from coterie.cluster.submit import bring_home, done, submit, unserved
    from coterie.cluster.wire import MsgspecConverter
    from coterie.runs.backend_setup import check_backends
    from coterie.runs.outcome import outcome_of

    given = gather(" ".join(prompt) if prompt else None, input_file, named or ())
    plan, _ = plan_for(target, loop_given(target, loop, backend, params or ()))
    check_backends(plan)
    address, bounds = _address(cluster), limits.limits()

    folder = None if no_files else around(plan, Path.cwd())

    async def main() -> "tuple[str, bool, Outcome | None]":
        async with connected(address, MsgspecConverter) as (client, export):
            run, began = await submit(client, export, plan, given, run=id, limits=bounds, folder=folder)
            if began and (missing := await unserved(client, plan)):
                complain(f"no node {' or '.join(missing)} now: run {run} waits for one")
            if not wait:
                return run, began, None
            complain(f"run {run} goes on on the cluster; Ctrl-C stops only this wait")
            left = await done(client, run)
            for notice in await bring_home(run, left.files, export):
                complain(notice)
            return run, began, outcome_of(left.ended, bounds)

    run, began, outcome = drive(main(), lambda: "no longer waiting; the run goes on")
    if outcome is None:
        print_result(as_json, {"run": run, "submitted": began}, lambda: run)
        if not began:
            hint = f"`coterie resume {run}` continues it if it has stopped"
            complain(f"run {run} was submitted before, and nothing was started; {hint}")
        return 0
    if as_json:
        say_json(text.outcome_data(outcome, ()))
        return outcome.exit
    if outcome.result and (result := text.result(outcome.result)):
        (complain if outcome.status == "failed" else say)(result)
    complain(text.outcome(outcome))
    return outcome.exit


def serve(
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="Q", help="Perform the turns of agents with this queue (default). Repeatable."),
    ] = None,
    home: Annotated[
        Path, typer.Option("--home", metavar="DIR", help="Where this node keeps the files of the turns it performs.")
    ] = Path(".coterie/node"),
    no_drive: Annotated[
        bool, typer.Option("--no-drive", help="Perform turns only: other nodes drive the runs.")
    ] = False,
    release: Annotated[
        str,
        typer.Option("--release", metavar="R", help="The name of this node's release (the version of coterie)."),
    ] = "",
    at_once: Annotated[int, typer.Option(min=1, metavar="N", help="Perform at most N turns of a queue at once.")] = 16,
    drain: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long turns may go on once the node is to end.")
    ] = 10.0,
    cluster: Cluster = None,
) -> int:
    """Be a node of a cluster: drive runs that were submitted, and perform the turns of queues.

    It needs the programs and the keys of the agents that it serves. Any number of nodes may serve one queue. Ctrl-C or
    SIGTERM ends it in order: it takes no further turn, those under way may end within --drain, and what is left then
    is interrupted and tried again on another node.
    """
    import asyncio

    from coterie import __version__
    from coterie.cli.signals import drive
    from coterie.cluster.address import connected
    from coterie.cluster.serve import node, watch_server
    from coterie.cluster.wire import MsgspecConverter

    address, queues = _address(cluster), queue or ["default"]
    home = home.absolute()  # git works in other folders

    async def main() -> None:
        async with (
            connected(address, MsgspecConverter) as (client, export),
            node(
                client,
                export,
                queues,
                home,
                drives=not no_drive,
                release=release or __version__,
                most=at_once,
                drain=drain,
            ),
        ):
            complain(f"serving {', '.join(queues)} for {address}")
            try:
                await watch_server(client, complain)
            except asyncio.CancelledError:  # its normal end
                return

    drive(main(), lambda: "no further turn begins; press Ctrl-C again to end at once")
    return 0
