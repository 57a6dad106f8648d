"""The fields of the answer to a question for a person."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from coterie.errors import CoterieError
from coterie.execution.runs.repository import Runs
from coterie.team.planning.plan import AgentPlan


class Forms:
    """The fields of the answers to the questions of one place; each run is read once."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._agents: dict[str, Mapping[str, AgentPlan]] = {}

    def fields(self, run: str, turn: str) -> list[dict[str, Any]]:
        """The outputs that an answer to *turn* of *run* can have, each with `name`, `type`, `values`, `needed`."""
        if run not in self._agents:
            self._agents[run] = {}
            with suppress(OSError, CoterieError):
                self._agents[run] = self._runs.journal(run).plan_now().agents
        agent = self._agents[run].get(turn.partition("#")[0])
        return [
            {"name": one.name, "type": one.type, "values": one.values, "needed": one.declared and not one.optional}
            for one in (agent.outputs if agent is not None else ())
        ]
