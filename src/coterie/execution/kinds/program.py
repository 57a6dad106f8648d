"""The kind of runs in which a user's program decides which agent is called."""

from collections.abc import Mapping
from typing import ClassVar

from coterie.errors import UsageError
from coterie.execution.kernel.kind import Kind
from coterie.history.engines.commands import Engine
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.program import ProgramPlan


class ProgramKind(Kind):
    """A user's class whose code calls the agents."""

    decides_elsewhere: ClassVar[str] = "a Python program"

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that decides nothing itself."""
        from coterie.history.engines.program import Program

        return Program(), self.plan.agents

    def check_resume(self, run: str) -> None:
        """Refuse: only the program can continue the run."""
        program: ProgramPlan = self.plan.coordination
        raise UsageError(
            f"run {run!r} is an execution of the topology {program.name!r} by {program.program}, whose code decides "
            f"which agents run: build that object in a program again, then `await topology.resume({run!r})`"
        )
