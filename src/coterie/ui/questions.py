"""What a question to a person asks for: the fields of its answer."""

from contextlib import suppress
from typing import Any

from coterie.errors import CoterieError
from coterie.runs.repository import Runs


def fields(runs: Runs, run: str, turn: str) -> list[dict[str, Any]]:
    """The outputs that the answer to *turn* of *run*, a human's, can have: each `name`, `type`, `values`, `needed`."""
    with suppress(OSError, CoterieError):
        agent = runs.journal(run).plan_now().agents.get(turn.partition("#")[0])
        return [
            {"name": one.name, "type": one.type, "values": one.values, "needed": one.declared and not one.optional}
            for one in (agent.outputs if agent is not None else ())
        ]
    return []
