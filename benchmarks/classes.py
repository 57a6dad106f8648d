"""The cost per call of the reference's topology classes, beside `asyncio.create_task` + `await` of the same stub.

A user's class that calls one agent after the other, one that calls a thousand at once, and the ensemble of the
reference; with the journal in memory and durable on disk, without rows. The agents answer at once, so only our own work
is measured. Each figure is the median of several rounds in which all sides take turns.

    python benchmarks/classes.py
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from turns import bare, bare_sync, rounds, timed, us

from coterie.patterns import (
    AgentRole,
    AgentType,
    BaseTopology,
    EnsembleConfig,
    EnsembleTopology,
    ExecutionContext,
    PipelineTopology,
    Topology,
    TopologyType,
)

ASKED = [{"role": "user", "content": "go"}]


async def done(self: BaseTopology, request: dict[str, Any]) -> dict[str, Any]:
    """What stands for a model."""
    return {"content": "done"}


class Stub(BaseTopology):
    """Everybody answers at once."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig
    n = 0
    _call_llm = done


class Chain(Stub):
    """One question after the other."""

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        for _ in range(self.n):
            got = await self.invoke_agent("a", ASKED, context)
        return {"text": got.text}


class PureChain(Chain):
    """The same, of a class that says that it does nothing outside: its next call shares the sync of an answer."""

    pure = True


class Fan(Stub):
    """All questions at once."""

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        got = await asyncio.gather(*(self.invoke_agent("a", ASKED, context) for _ in range(self.n)))
        return {"text": got[-1].text}


class Pipeline(PipelineTopology):
    """The reference's own."""

    _call_llm = done


class Ensemble(EnsembleTopology):
    """The reference's own."""

    _call_llm = done


def agents(*slots: str) -> dict[str, AgentType]:
    """Who fills *slots*."""
    return {slot: AgentType(name=slot, description=slot, role=AgentRole.EXECUTOR) for slot in slots}


def own(kind: type[Stub], n: int) -> BaseTopology:
    """An object of *kind* that makes *n* calls."""
    made = kind(Topology(name="bench", description="bench", topology_type=TopologyType.ENSEMBLE), agents("a"))
    made.n = n
    return made


def pipeline(n: int) -> BaseTopology:
    """A pipeline of *n* stages."""
    defined = Topology(name="bench", description="bench", topology_type=TopologyType.PIPELINE)
    return Pipeline(defined, agents(*(f"s{k}" for k in range(n))))


def ensemble(n: int) -> BaseTopology:
    """An ensemble of *n* members."""
    config = {"aggregation_method": "concat"}
    defined = Topology(name="bench", description="bench", topology_type=TopologyType.ENSEMBLE, config=config)
    return Ensemble(defined, agents(*(f"ensemble_{k}" for k in range(n))))


CASES: dict[str, tuple[Callable[[], BaseTopology], int, bool]] = {
    "own class, chain of 1,000": (partial(own, Chain, 1_000), 1_000, False),
    "pure class, chain of 1,000": (partial(own, PureChain, 1_000), 1_000, False),
    "pipeline of 100": (partial(pipeline, 100), 100, False),
    "own class, fan-out of 1,000": (partial(own, Fan, 1_000), 1_000, True),
    "ensemble of 1,000": (partial(ensemble, 1_000), 1_000, True),
}
"""The topology, how many calls it makes, and whether they run side by side."""


def in_memory(make: Callable[[], BaseTopology], n: int) -> float:
    """Seconds a call, the journal in memory."""
    made = make()
    return timed(lambda: asyncio.run(made.execute({"prompt": "go"}, durable=False))) / n


def durable(make: Callable[[], BaseTopology], n: int, folder: Path) -> float:
    """Seconds a call, the journal below *folder*."""
    made = make()
    with tempfile.TemporaryDirectory(dir=folder) as root:
        os.environ["XDG_STATE_HOME"] = root  # the index of runs is written there, too
        return timed(lambda: asyncio.run(made.execute({"prompt": "go"}, state_dir=Path(root)))) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where durable journals are written")
    given = parser.parse_args()
    for name, (make, n, parallel) in CASES.items():
        one, at_once, sync, memory, disk = rounds(
            given.rounds,
            partial(bare, n, parallel=False),
            partial(bare, n, parallel=True),
            partial(bare_sync, min(n, 1_000), given.folder),
            partial(in_memory, make, n),
            partial(durable, make, n, given.folder),
        )
        print(
            f"{name:28} create_task+await {us(one)}, all at once {us(at_once)}  memory {us(memory)} a call"
            f" = {memory / one:5.2f}x (≤ 12), {memory / at_once:5.2f}x of all at once"
        )
        beside = f"{disk / memory:.2f}x of memory (≤ 2)" if parallel else f"{disk / sync:.2f}x (≤ 1.5)"
        print(f"{'':28} write+fdatasync {us(sync)}  durable {us(disk)} a call = {beside}")


if __name__ == "__main__":
    main()
