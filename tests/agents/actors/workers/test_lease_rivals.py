"""The lease with two supervisors: one was frozen or cut off, another one has begun, and both meet again."""

import asyncio

import pytest
from bundles import bundle
from test_lease import SILENT, Noted, Schedule, Span, twice
from worker_stage import WorkerStage

from coterie.agents.actors.system import ActorSystem
from coterie.errors import CannotStart


class Rivals(Schedule):
    """The supervisors are cut off; others begin, are perhaps cut off as well, and one of the two leaves at last."""

    async def scene(self, stage: WorkerStage) -> None:
        for process in ("w", "w", "v"):
            self.workers.append(await stage.worker(process))
        await stage.state("a", "running")
        first, loop = stage.system, asyncio.get_running_loop()
        sending = loop.create_task(self.send())
        await asyncio.sleep(self.random.uniform(0.0, SILENT))
        self.cut_off(first)
        await asyncio.sleep(self.random.uniform(0.0, 3 * SILENT))
        second = stage.supervisors()
        try:
            await second.start()
        except CannotStart:
            second = first
        stage.system = second
        leaving = [loop.create_task(self.leave(one)) for one in {id(one): one for one in (first, second)}.values()]
        await asyncio.sleep(self.random.uniform(0.0, 4 * SILENT))
        self.heal()
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.uniform(0.0, 2.0))
            self.cut_off(second)
            await asyncio.sleep(self.random.uniform(0.0, 4 * SILENT))
            self.heal()
        await asyncio.sleep(60)
        sending.cancel()
        for task in (*self.traffic, *leaving):
            task.cancel()
        for worker in self.workers:
            await worker.stop()
        stage.system = second if leaving[0].done() and not leaving[0].cancelled() else first

    def cut_off(self, system: ActorSystem) -> None:
        holds, node = self.random.random() < 0.5, system.node.address
        self.faults = [(node, "", holds), ("", node, holds)]

    async def leave(self, system: ActorSystem) -> None:
        await system.gave_up()
        await system.stop()


def history(seed: int) -> list[tuple[Span, Span]]:
    schedule = Rivals(seed, 0)
    schedule.stage.play(schedule.scene)
    assert len(Noted.spans) > 20
    return twice(Noted.spans)


@bundle("seed", range(4))
def test_two_supervisors_never_make_two_of_one_agent(seed: int) -> None:
    """The one that comes back gives agents to no worker before it knows whether another one has begun."""
    assert history(seed) == []


@pytest.mark.long
@bundle("seed", range(10, 110))
def test_two_supervisors_never_make_two_of_one_agent_in_100_schedules(seed: int) -> None:
    """As above."""
    assert history(seed) == []
