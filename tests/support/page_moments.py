"""Random runs at random moments: the first records of a team of any kind, with or without an owner."""

from pathlib import Path
from random import Random

from random_flows import random_flow_plan
from random_loops import random_loop_plan
from random_nests import random_nest
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.execution.runs.repository import Runs
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record, Usage
from coterie.history.journal.runs import history
from coterie.team.planning.plan import AgentPlan, Limits, MappedFlowPlan, MapPlan, Plan, Wanted

RUN = "r"


class Everyone(dict[str, list[object]]):
    """Every agent does as its dice say."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self._dice = dice

    def get(self, name: str, default: object = None) -> list[object]:  # type: ignore[override]
        return [self._play]

    def _play(self, request: Request) -> Result:
        usage = Usage(
            input_tokens=self._dice.randrange(9000), output_tokens=7, cost=self._dice.choice([0, 0.001, 1.25])
        )
        if self._dice.random() < 0.15:
            return Failure(kind="exit", reason=f"{request.agent.name} broke <b>&</b>", usage=usage)
        named = {one.name: self._dice.choice(one.values) for one in request.agent.outputs if one.values}
        listed = {
            one.name: [f"f{n}" for n in range(self._dice.randint(0, 30))]
            for one in request.agent.outputs
            if one.type == "list"
        }
        return Answer(text=f"{request.turn} done", outputs=named | listed, usage=usage)


def _mapped(dice: Random) -> Plan:
    """Each item of a list; some may fail."""
    plan = flow("lister -> check -> report", lister=AgentPlan(name="lister", outputs=(Wanted(name="l", type="list"),)))
    each = MapPlan(
        agent="lister", field="l", at_most=25, at_once=dice.choice([None, 1, 4]), on_more="first", tolerate="50%"
    )
    coordination = MappedFlowPlan(mentions=plan.flow.mentions, groups=plan.flow.groups, maps={"check": each})  # type: ignore[union-attr]
    return Plan(name="test", agents=plan.agents, coordination=coordination)


def moment(seed: int) -> Runs:
    """The runs with one root run `r`, as they were at some moment."""
    dice = Random(f"moment {seed}")
    plan = [random_flow_plan, random_nest, random_loop_plan, lambda seed: _mapped(dice)][seed % 4](seed)
    stage = Stage(plan, Cast(Everyone(dice), seconds=dice.choice([0.25, 1.0, 40.0])), park=True)
    limits = dice.choice([None, None, Limits(max_turns=dice.randint(1, 6)), Limits(max_cost=2.0)])
    if stage.start(limits).status not in ("completed", "failed") and dice.random() < 0.5:
        stage.resume(Limits(max_turns=99, max_cost=99.0))
    records = list(history(stage.store.read, RUN))
    store, kept = MemoryStore(), dict[str, list[Record]]()
    for run, record in records[: dice.choice([len(records), dice.randint(1, len(records))])]:
        kept.setdefault(run, []).append(record)
    for run, of_run in kept.items():
        store.fill(run, of_run)
    if dice.random() < 0.5 and store.status(RUN).state == "cut off":
        store.claim(RUN)
    return Runs(Path("/nowhere"), store=store)
