"""Runs in which a program beside the run decides which agent is called."""

from collections.abc import Mapping
from typing import ClassVar

from coterie.engines.commands import Engine
from coterie.errors import UsageError
from coterie.kernel.kind import Kind
from coterie.planning.plan import AgentPlan
from coterie.planning.program import ProgramPlan


class ProgramKind(Kind):
    """A class of a user's, whose code calls the agents."""

    decides_elsewhere: ClassVar[str] = "a Python program"

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that decides nothing itself."""
        from coterie.engines.program import Program

        return Program(), self.plan.agents

    def check_resume(self, run: str) -> None:
        """Only the program can carry the run on."""
        program: ProgramPlan = self.plan.coordination
        raise UsageError(
            f"run {run!r} is an execution of the topology {program.name!r} by {program.program}, whose code decides "
            f"which agents run: build that object in a program again, then `await topology.resume({run!r})`"
        )
