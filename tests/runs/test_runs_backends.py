"""The backends that a run has by itself."""

import pytest
from asking import agent, asked, request

from coterie.backends.base import Answer
from coterie.backends.models.backend import ModelBackend
from coterie.clock import VirtualClock
from coterie.planning import BACKENDS
from coterie.planning.plan import Wanted
from coterie.runs.backend_setup import local_turns


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_a_backend_that_a_file_may_name_is_there(name: str) -> None:
    """What planning accepts, a run can ask."""
    said: list[object] = []

    async def ask() -> None:
        turns = local_turns(model=ModelBackend(environment={}))
        session = await turns.start(request(agent(backend=name)), said.append)
        await session.interrupt()
        said.append(await session.result())
        await turns.close()

    VirtualClock().run(ask())

    assert f"the backend {name!r}" not in str(said)


def test_a_scripted_agent_answers_by_rote() -> None:
    """As in a rehearsal: turn n gives the n-th value of each declared output."""
    verdict = Wanted(name="verdict", type="enum", values=("approve", "revise"))

    result, _ = VirtualClock().run(asked(local_turns(), request(agent(backend="scripted", outputs=(verdict,)))))

    assert isinstance(result, Answer)
    assert (result.text, result.outputs) == ("a 1", {"verdict": "approve"})
