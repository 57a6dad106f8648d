"""Runs in which a program beside the run decides which agent is called."""

from collections.abc import Mapping
from typing import ClassVar

from coterie.engines.commands import Engine
from coterie.errors import UsageError
from coterie.kernel.kind import Kind
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.program import ProgramPlan


class ProgramKind(Kind):
    """A class of a user's, whose code calls the agents."""

    decides_elsewhere: ClassVar[str] = "a Python program"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._program: ProgramPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that decides nothing itself."""
        from coterie.engines.program import Program

        return Program(), self.plan.agents

    def check_resume(self, run: str) -> None:
        """Only the program can carry the run on."""
        program, name = self._program.program, self._program.name
        raise UsageError(
            f"run {run!r} is an execution of the topology {name!r} by {program}, whose code decides which agents run: "
            f"build that object in a program again, then `await topology.resume({run!r})`"
        )
