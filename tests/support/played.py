"""A kind around an engine that a test makes."""

from collections.abc import Callable, Mapping

from coterie.execution.kinds import Kind
from coterie.history.engines.commands import Engine
from coterie.team.planning.plan import AgentPlan, Plan

MakeEngine = Callable[[Plan], tuple[Engine, Mapping[str, AgentPlan]]]


def played(make_engine: MakeEngine) -> Callable[[Plan], Kind]:
    """What `make_kind` takes, for the engine and the agents that *make_engine* gives for a plan."""

    class Played(Kind):
        def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
            return make_engine(self.plan)

    return Played
