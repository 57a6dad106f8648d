"""What a run on a cluster survives: nodes and the server killed, an owner frozen. All of them are real processes."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_stage import WITHIN, MemoryExport, Server, coterie, node_of, server, serving, topics
from stage import Cast, flow
from temporalio.client import Client
from until import soon

from coterie.agents.backends import processes
from coterie.agents.backends.processes import alive
from coterie.base.clock import SystemClock
from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.submit import ended, restart, submit
from coterie.execution.cluster.wire import MsgspecConverter
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.replay import replay
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted, Record, TurnFinished, TurnStarted
from coterie.history.journal.runs import RunReader, RunRecord
from coterie.team.planning.plan import AgentPlan, Plan

pytestmark = pytest.mark.long

FIRST_LONG = "$(( COTERIE_ATTEMPT == 1 ? 3600 : 0 ))"
"""The first attempt does not end by itself while a test waits."""
WORK = 'echo "$COTERIE_TURN.$COTERIE_ATTEMPT $$" >> "{log}"; sleep {seconds}; echo "$COTERIE_TURN done"'


def worker(name: str, log: Path, seconds: float | str, **fields: Any) -> AgentPlan:
    words = ("sh", "-c", "cat > /dev/null; " + WORK.format(log=log, seconds=seconds))
    return AgentPlan(name=name, backend="command", argv=words, **fields)


def chain(length: int, log: Path, seconds: float) -> Plan:
    names = [f"a{k}" for k in range(length)]
    return flow(" -> ".join(names), **{name: worker(name, log, seconds) for name in names})


def started(log: Path) -> list[str]:
    """The attempts that really began, in order."""
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    await soon(condition, WITHIN)


def records(export: Path, run: str, *kinds: type[Record]) -> list[Any]:
    store = JsonlStore(export)
    return [one for one in store.read(run) if isinstance(one, kinds)] if store.has(run) else []


async def drive(cluster: str, plan: Plan, run: str, meanwhile: Callable[[], Any]) -> RunExit:
    async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, export):
        await submit(client, export, plan, {"prompt": "go"}, run=run)
        await meanwhile()
        return await asyncio.wait_for(ended(client, run), WITHIN)


def test_a_node_killed_in_a_turn_interrupts_that_attempt_and_no_other(temporal_server: Server, tmp_path: Path) -> None:
    log, export = tmp_path / "log", tmp_path / "export"
    plan = flow("before -> slow -> after", before=worker("before", log, 0.1), slow=worker("slow", log, FIRST_LONG))
    plan.agents["after"] = worker("after", log, 0.1)
    cluster = f"{temporal_server.url}?export={export}"

    async def main() -> None:
        with serving(tmp_path, cluster, name="one") as one:

            async def meanwhile() -> None:
                await until(lambda: "slow#1.1" in started(log))
                agent = int(log.read_text().split()[-1])
                one.kill()
                await until(lambda: not alive(agent, processes.started(agent)))  # its agent has not ended by itself
                spare.enter()

            with _Late(tmp_path, cluster, "two") as spare:
                done = await drive(cluster, plan, "lost-1", meanwhile)
        assert done.status == "completed"

    asyncio.run(main())
    assert started(log) == ["before#1.1", "slow#1.1", "slow#1.2", "after#1.1"]
    cut = records(export, "lost-1", AttemptInterrupted)
    assert [(one.turn, one.attempt, one.reason) for one in cut] == [("slow#1", 1, "lost")]
    assert replay("lost-1", state_dir=export).left == ()


class _Late:
    """A node that is started within its block."""

    def __init__(self, folder: Path, cluster: str, name: str) -> None:
        self._node = serving(folder, cluster, name=name)
        self._entered = False

    def enter(self) -> None:
        self.process = self._node.__enter__()
        self._entered = True

    def __enter__(self) -> "_Late":
        return self

    def __exit__(self, *why: object) -> None:
        if self._entered:
            self._node.__exit__(None, None, None)


def test_a_turn_longer_than_every_time_out_survives_its_driver(temporal_server: Server, tmp_path: Path) -> None:
    log, export = tmp_path / "log", tmp_path / "export"
    plan = flow("long -> after", long=worker("long", log, 11.0, queue="hands"), after=worker("after", log, 0.0))
    plan.agents["after"] = worker("after", log, 0.0, queue="hands")
    cluster = f"{temporal_server.url}?export={export}"

    async def main() -> None:
        words = ("--no-drive", "--queue", "hands")
        with serving(tmp_path, cluster, *words, name="hands"), serving(tmp_path, cluster, name="driver") as driver:

            async def meanwhile() -> None:
                await until(lambda: "long#1.1" in started(log))
                driver.kill()
                await asyncio.sleep(1)
                other.enter()

            with _Late(tmp_path, cluster, "other") as other:
                assert (await drive(cluster, plan, "adopted-1", meanwhile)).status == "completed"

    asyncio.run(main())
    assert started(log) == ["long#1.1", "after#1.1"]
    assert records(export, "adopted-1", AttemptInterrupted) == []


def test_a_frozen_node_that_wakes_up_is_refused(temporal_server: Server, tmp_path: Path) -> None:
    log, export = tmp_path / "log", tmp_path / "export"
    plan = flow("slow -> after", slow=worker("slow", log, FIRST_LONG), after=worker("after", log, 0.1))
    cluster = f"{temporal_server.url}?export={export}"

    async def main() -> None:
        with serving(tmp_path, cluster, name="one") as one:

            async def meanwhile() -> None:
                await until(lambda: "slow#1.1" in started(log))
                one.send_signal(signal.SIGSTOP)
                spare.enter()
                await until(lambda: "slow#1.2" in started(log))
                one.send_signal(signal.SIGCONT)

            with _Late(tmp_path, cluster, "two") as spare:
                assert (await drive(cluster, plan, "frozen-1", meanwhile)).status == "completed"

    asyncio.run(main())
    assert started(log) == ["slow#1.1", "slow#1.2", "after#1.1"]
    finished = records(export, "frozen-1", TurnFinished)
    assert [(one.turn, one.attempt) for one in finished] == [("slow#1", 2), ("after#1", 1)]


def test_a_node_that_was_frozen_for_nine_seconds_has_lost_its_turn(temporal_server: Server, tmp_path: Path) -> None:
    """Its agent was ended by its guard, which is no failure; it wakes before the server gives its turns to others."""
    log, export = tmp_path / "log", tmp_path / "export"
    plan = chain(2, log, 0.1)
    plan.agents["a0"] = worker("a0", log, FIRST_LONG)

    async def main() -> None:
        cluster = f"{temporal_server.url}?export={export}"
        with serving(tmp_path, cluster) as node:

            async def meanwhile() -> None:
                await until(lambda: "a0#1.1" in started(log))
                pid = int(log.read_text().split()[-1])
                at = processes.started(pid)
                node.send_signal(signal.SIGSTOP)
                await until(lambda: not alive(pid, at))
                node.send_signal(signal.SIGCONT)

            assert (await drive(cluster, plan, "frozen-9", meanwhile)).status == "completed"

    asyncio.run(main())
    assert records(export, "frozen-9", AttemptFailed) == []
    assert [(one.turn, one.reason) for one in records(export, "frozen-9", AttemptInterrupted)] == [("a0#1", "lost")]
    assert [(one.turn, one.attempt) for one in records(export, "frozen-9", TurnFinished)] == [("a0#1", 2), ("a1#1", 1)]


def test_the_server_killed_and_started_again_repeats_nothing(tmp_path: Path) -> None:
    log, export = tmp_path / "log", tmp_path / "export"

    async def main() -> None:
        with server(tmp_path) as one:
            cluster = f"{one.url}?export={export}"

            async def meanwhile() -> None:
                await until(lambda: "a3#1.1" in started(log))
                one.kill()
                await asyncio.sleep(2)
                one.start()

            with serving(tmp_path, cluster):
                assert (await drive(cluster, chain(8, log, 0.3), "server-1", meanwhile)).status == "completed"

    asyncio.run(main())
    assert started(log) == [f"a{k}#1.1" for k in range(8)]


def test_a_hundred_parked_runs_are_answered(temporal_server: Server, tmp_path: Path) -> None:
    plan = flow("boss -> after", boss=AgentPlan(name="boss", kind="human", backend="human"))

    async def main() -> None:
        from coterie.execution.cluster.keys import KeyRing
        from coterie.execution.cluster.relay import tell
        from coterie.execution.runs.messages import answer

        export, cast = MemoryExport(), Cast({}, seconds=0.0)
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            names = [f"{tmp_path.name}-{k}" for k in range(100)]
            for name in names:
                await submit(client, export, plan, {"prompt": "go"}, run=name)
            waiting = {run for run, one in _all(export) if isinstance(one, TurnStarted)}
            async with asyncio.timeout(WITHIN):
                while len(waiting) < 100:
                    await asyncio.sleep(0.2)
                    waiting = {run for run, one in _all(export) if isinstance(one, TurnStarted)}
            began = time.monotonic()
            verdicts = [await tell(client, KeyRing.of_user(), name, answer("", "yes")) for name in names]
            assert {verdict.status for verdict in verdicts} == {"accepted"}
            done = await asyncio.wait_for(asyncio.gather(*(ended(client, name) for name in names)), WITHIN)
            assert {one.status for one in done} == {"completed"}
            print(f"{(time.monotonic() - began) / 100 * 1000:.0f} ms from a question to its end")
            assert len(cast.asked) == 100

    asyncio.run(main())


def _all(export: MemoryExport) -> Sequence[RunRecord]:
    return [(run, record) for (run, _), record in export.records.items()]


def test_a_new_link_every_200_events_repeats_nothing(temporal_server: Server, tmp_path: Path) -> None:
    names = [f"a{k}" for k in range(80)]
    plan, cast = flow(" -> ".join(names)), Cast({}, seconds=0.0)

    async def main() -> tuple[RunExit, Sequence[RunRecord]]:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, plan, {"prompt": "go"}, run=run, link_events=200)
            return await asyncio.wait_for(ended(client, run), WITHIN), await export.load(run)

    done, found = asyncio.run(main())
    assert done.status == "completed"
    assert [one.turn for one in cast.asked] == [f"{name}#1" for name in names]
    assert max(getattr(one, "epoch", 0) for _, one in found) > 2
    store = MemoryStore()
    shell = Shell(RunPorts(store=store, turns=Cast({}, seconds=0.0), clock=SystemClock(), make_kind=kind_of))
    asyncio.run(shell.start("here", plan, {"prompt": "go"}))
    assert topics(found) == topics(list(RunReader(store).history("here")))


def test_a_terminated_run_is_resumed_from_its_export(temporal_server: Server, tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "export"
    cluster = f"{temporal_server.url}?export={folder}"

    async def main() -> list[str]:
        async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, export):
            await submit(client, export, chain(12, log, 0.2), {"prompt": "go"}, run="terminated-1")
            await until(lambda: "a5#1.1" in started(log) and len(records(folder, "terminated-1", TurnFinished)) >= 3)
            await client.get_workflow_handle("terminated-1").terminate("stuck")
            await asyncio.sleep(1)
            known = [one.turn for one in records(folder, "terminated-1", TurnFinished)]
            await restart(client, export, "terminated-1")
            assert (await asyncio.wait_for(ended(client, "terminated-1"), WITHIN)).status == "completed"
            return known

    with serving(tmp_path, cluster):
        known = asyncio.run(main())
    assert len(known) >= 3
    assert [started(log).count(f"{turn}.1") for turn in known] == [1] * len(known)
    assert [one.turn for one in records(folder, "terminated-1", TurnFinished)] == [f"a{k}#1" for k in range(12)]


def test_a_run_stays_with_its_release_and_the_next_link_upgrades(tmp_path: Path) -> None:
    """New runs are the current release's, whichever nodes serve; without its nodes a run is resumed with another."""
    log, folder = tmp_path / "log", tmp_path / "export"

    async def main(cluster: str) -> None:
        async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, export):

            async def run(name: str) -> None:
                await submit(client, export, chain(1, log, 0.0), {"prompt": "go"}, run=name)
                assert (await asyncio.wait_for(ended(client, name), WITHIN)).status == "completed"

            with serving(tmp_path, cluster, "--release", "1.9", name="old") as old:
                await submit(client, export, chain(20, log, 1.0), {"prompt": "go"}, run="pinned-1")
                await until(lambda: "a0#1.1" in started(log))
                with serving(tmp_path, cluster, "--release", "1.10", name="new"):
                    await until(lambda: "serving" in (tmp_path / "new.log").read_text())
                    assert "`coterie cluster releases set 1.10` gives them" in (tmp_path / "new.log").read_text()
                    await run("before-1")
                    assert await _release(client, "before-1") == "1.9"
                    listed = coterie("cluster", "releases", "set", "1.10", cwd=tmp_path, cluster=cluster)
                    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [
                        ["1.10", "current"],
                        ["1.9", "1"],
                    ], listed
                    await run("fresh-1")
                    assert await _release(client, "pinned-1") == "1.9"
                    assert await _release(client, "fresh-1") == "1.10"
                    old.kill()
                    before = len(started(log))
                    stuck = "no node takes it up (release 1.9)"
                    await until(lambda: stuck in coterie("runs", cwd=tmp_path, cluster=cluster).stdout)
                    assert len(started(log)) - before <= 1  # no node of another release decides for it
                    assert stuck in coterie("attention", cwd=tmp_path, cluster=cluster).stdout
                    await client.get_workflow_handle("pinned-1").terminate("its release is gone")
                    await restart(client, export, "pinned-1")
                    assert (await asyncio.wait_for(ended(client, "pinned-1"), WITHIN)).status == "completed"
                    assert await _release(client, "pinned-1") == "1.10"

    with server(tmp_path) as one:
        asyncio.run(main(f"{one.url}?export={folder}"))
    assert [one.turn for one in records(folder, "pinned-1", TurnFinished)] == [f"a{k}#1" for k in range(20)]


async def _release(client: Client, run: str) -> str:
    found = await client.get_workflow_handle(run).describe()
    info = found.raw_description.workflow_execution_info.versioning_info
    return info.deployment_version.build_id
