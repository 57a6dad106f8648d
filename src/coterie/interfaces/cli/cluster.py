"""`coterie submit`, `coterie serve` and `coterie cluster`: runs on many machines."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.loop_options import LoopOptions, loop_given
from coterie.interfaces.cli.options import (
    AsJson,
    Backend,
    Cluster,
    InputFile,
    LimitOptions,
    LogFormat,
    Named,
    Prompt,
    Set,
)
from coterie.interfaces.cli.output import announce, choose_log, complain, print_result, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.execution.cluster.address import ClusterAddress
    from coterie.execution.cluster.keys import KeyRing
    from coterie.execution.runs.outcome import Outcome


_NAMED = 5
"""Files that a notice names before it counts the others."""


def _address(given: str | None) -> "ClusterAddress":
    from coterie.errors import UsageError
    from coterie.execution.cluster.address import FORM, ClusterAddress

    if (address := ClusterAddress.given(given)) is None:
        raise UsageError(f"which cluster? write --cluster {FORM}, or set COTERIE_CLUSTER")
    return address


def _ring() -> "KeyRing":
    """The keys of this user; a notice says so when they are made."""
    from coterie.execution.cluster.keys import KeyRing

    ring = KeyRing.of_user()
    is_new = not ring.path.exists()
    if (key := ring.keys[0].public) and is_new:
        complain(f"made a key of the cluster, {ring.path}: copy this file to its other machines, or trust {key} there")
    return ring


def submit(
    target: Annotated[str, Arg("TARGET", "An .at or .yaml file, the folder of a loop, or a preset.")],
    prompt: Prompt = None,
    named: Named = None,
    input_file: InputFile = None,
    params: Set = None,
    backend: Backend = None,
    id: Annotated[str, Opt("--id ID", "The run's id: submitted again, it is the same run.")] = "",
    no_files: Annotated[bool, Opt("--no-files", "Send no files along: the nodes have what the agents need.")] = False,
    include: Annotated[
        list[Path] | None, Opt("--include PATH", "Send this file or folder, though it looks like a secret.")
    ] = None,
    wait: Annotated[bool, Opt("--wait", "Wait until the run has ended, and print its outcome.")] = False,
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
    import shlex

    from coterie.execution.cluster.address import connected
    from coterie.execution.cluster.files import around
    from coterie.execution.cluster.submit import bring_home, done, submit, unserved
    from coterie.execution.cluster.wire import MsgspecConverter
    from coterie.execution.runs.backend_setup import check_backends
    from coterie.execution.runs.outcome import outcome_of
    from coterie.interfaces.cli.before import show_risks
    from coterie.interfaces.cli.inputs import gather
    from coterie.interfaces.cli.run import plan_for, print_outcome
    from coterie.interfaces.cli.signals import drive
    from coterie.interfaces.cli.text.outcomes import outcome_data

    given = gather(" ".join(prompt) if prompt else None, input_file, named or ())
    plan, _ = plan_for(target, loop_given(target, loop, backend, params or (), travels=True))
    check_backends(plan)
    address, bounds, ring = _address(cluster), limits.limits(), _ring()

    folder = None if no_files else around(plan, Path.cwd())
    show_risks(plan, bounds, "the cluster", folder=folder, on_nodes=True, as_json=as_json)

    async def main() -> "tuple[str, bool, Outcome | None]":
        async with connected(address, MsgspecConverter) as (client, export):
            run, began, left_out = await submit(
                client, export, plan, given, run=id, limits=bounds, folder=folder, include=include or (), ring=ring
            )
            if began and left_out:
                more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
                option = f"--include {shlex.quote(left_out[0])}"
                complain(f"not sent, because it looks secret: {', '.join(left_out[:_NAMED])}{more} ({option} sends it)")
            if began and (missing := await unserved(client, plan)):
                complain(f"no node {' or '.join(missing)} now: run {run} waits for one")
            if not wait:
                return run, began, None
            complain(f"run {run} goes on on the cluster; Ctrl-C stops only this wait")
            left = await done(client, run, ring)
            for notice in await bring_home(run, left.files, export):
                complain(notice)
            return run, began, outcome_of(left.ended)

    run, began, outcome = drive(main(), lambda: "no longer waiting; the run goes on")
    if outcome is None:
        print_result(as_json, {"run": run, "submitted": began}, lambda: run)
        if not began:
            hint = f"`coterie resume {run}` continues it if it has stopped"
            complain(f"run {run} was submitted before, and nothing was started; {hint}")
        return 0
    if as_json:
        say_json(outcome_data(outcome))
    else:
        print_outcome(outcome, f" --cluster {shlex.quote(cluster)}" if cluster else "")
    return outcome.exit


def serve(
    queue: Annotated[
        list[str] | None, Opt("--queue Q", "Perform the turns of agents with this queue (default). Repeatable.")
    ] = None,
    home: Annotated[
        Path | None,
        Opt(
            "--home DIR",
            "Where this node keeps the files of the turns it performs; by default .coterie/node, or the first of "
            "node-2, node-3 and so on that no other node has.",
        ),
    ] = None,
    no_drive: Annotated[bool, Opt("--no-drive", "Perform turns only: other nodes drive the runs.")] = False,
    release: Annotated[
        str, Opt("--release R", "The name of this node's release (version and digest of its files).")
    ] = "",
    at_once: Annotated[int, Opt("--at-once N", "Perform at most N turns of a queue at once (16).", min=1)] = 16,
    drain: Annotated[
        float, Opt("--drain SECONDS", "How long turns may go on once the node is to end (10).", min=0)
    ] = 10.0,
    keep: Annotated[str, Opt("--keep AGE", "How long to keep files of ended runs: 7d, 12h or 1d12h.")] = "7d",
    beat: Annotated[
        float,
        Opt(
            "--beat SECONDS",
            "How often a turn shows the server a sign of life, once it is old; a young one does each second. "
            "Above 4, agents are ended so much sooner when this node freezes or is cut off.",
            min=0.1,
            max=7,
        ),
    ] = 4.0,
    management: Annotated[
        int | None, Opt("--management PORT", "Answer /health, /ready and /metrics at PORT of this machine.", min=0)
    ] = None,
    log_format: LogFormat = "text",
    cluster: Cluster = None,
) -> int:
    """Be a node of a cluster: drive submitted runs and perform turns.

    It needs the programs and the keys of the agents that it serves. Any number of nodes may serve one queue. Ctrl-C or
    SIGTERM ends it in order: it takes no further turn, those under way may end within --drain, and what is left then
    is interrupted and tried again on another node.
    """
    import asyncio
    import sys
    from contextlib import AsyncExitStack, suppress

    from coterie.execution.cluster.node_secrets import hold_back, secret_paths
    from coterie.interfaces.cli.signals import drive

    hold_back([sys.executable, "-P", "-m", "coterie", *sys.argv[1:]])
    choose_log(log_format)
    from coterie.errors import UsageError
    from coterie.execution.cluster.address import connected
    from coterie.execution.cluster.serve import ServingState, claim_home, node
    from coterie.execution.cluster.wire import MsgspecConverter
    from coterie.team.formats.settings.durations import seconds

    longest = seconds(keep, most=float("inf"))
    if longest is None or keep.isdigit():  # bare digits would be milliseconds
        raise UsageError(f"--keep {keep!r} is not an age such as 7d, 12h or 1d12h")
    address, queues, ring = _address(cluster), queue or ["default"], _ring()
    place, held = claim_home(home)

    status, operations = ServingState(), AsyncExitStack()

    async def main() -> None:
        if management is not None:
            from coterie.agents.actors.http.endpoints import answering

            await operations.enter_async_context(answering(status, management))
        async with (
            operations,
            connected(address, MsgspecConverter) as (client, export),
            node(
                client,
                export,
                queues,
                place,
                ring=ring,
                drives=not no_drive,
                release=release,
                most=at_once,
                drain=drain,
                hidden=[*secret_paths(address.export), ring.path],
                keep=longest,
                beat=beat,
                tell=complain,
            ) as running,
        ):
            announce(f"serving {', '.join(queues)} for {address}")
            status.turns, status.why_not = running, ""
            with suppress(asyncio.CancelledError):  # its normal end
                await asyncio.Event().wait()
            status.why_not = "stopping"

    drive(main(), lambda: "no further turn begins; press Ctrl-C again to end at once")
    held.release()
    return 0


def key(
    words: Annotated[
        list[str] | None,
        Arg("[new | trust KEY | forget KEY]", "Make another key, trust that of another machine, or trust one no more."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the keys with which this machine speaks to clusters, or change them.

    Everyone who reaches Temporal's server can send anything there; what counts is signed with a key. Nodes perform only
    turns of runs that a key which they trust has submitted. The first command that needs a key makes one.
    """
    from coterie.errors import UsageError
    from coterie.execution.cluster.keys import KeyRing
    from coterie.execution.runs.authority import check_operator
    from coterie.interfaces.cli.text.words import table

    ring = KeyRing.of_user()
    if words:
        check_operator()
    match words or []:
        case []:
            pass
        case ["new"]:
            ring.renew()
        case ["trust", other]:
            ring.trust(other)
        case ["forget", other]:
            ring.forget(other)
        case _:
            form = "[new | trust KEY | forget KEY]"
            raise UsageError(f"write `coterie cluster key` to see the keys, or `coterie cluster key {form}`")
    own = [one.public for one in ring.keys]
    others = [one for one in ring.trusted if one not in own]

    def text() -> str:
        rows = [*((one, "of this machine") for one in own), *((one, "trusted") for one in others)]
        return f"{table(rows, ('key', ''))}\nin {ring.path}"

    print_result(as_json, {"file": str(ring.path), "own": own, "trusted": others}, text)
    return 0


def releases(
    words: Annotated[
        list[str] | None, Arg("[set RELEASE]", "Give new runs, and new links of long ones, to this release.")
    ] = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> int:
    """List the releases of a cluster's nodes, or say which one takes new runs.

    A run stays with the release that began it, or that its last link was given to. Shows each release that has served,
    with its nodes now and the runs under way that only it decides.
    """
    import asyncio
    import time

    from msgspec.structs import asdict

    from coterie.errors import UsageError
    from coterie.execution.cluster.address import connected
    from coterie.execution.cluster.releases import Release, releases, set_current
    from coterie.execution.cluster.wire import MsgspecConverter
    from coterie.execution.runs.authority import check_operator
    from coterie.interfaces.cli.text.words import table

    if words and (len(words) != 2 or words[0] != "set"):
        raise UsageError("write `coterie cluster releases` to list them, or `coterie cluster releases set RELEASE`")
    if words:
        check_operator()

    async def main() -> list[Release]:
        async with connected(_address(cluster), MsgspecConverter) as (client, _):
            if words:
                await set_current(client, words[1])
            return await releases(client)

    def minute(at: float) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))

    def text() -> str:
        rows = [
            (one.name, "current" if one.current else "", str(one.nodes), str(one.runs), minute(one.since))
            for one in found
        ]
        return table(rows, ("release", "", "nodes", "runs", "since")) if rows else "no node has served yet"

    found = asyncio.run(main())
    print_result(as_json, [asdict(one) for one in found], text)
    return 0
