"""The backends that a run has by itself."""

import asyncio
from pathlib import Path

from asking import agent, asked, request
from bundles import bundle
from stage import flow

from coterie.agents.backends.base import Answer
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.needs import absent_programs
from coterie.base.clock import VirtualClock
from coterie.execution.runs.backend_setup import agents_of, local_turns
from coterie.team.options.backends import CODING
from coterie.team.options.backends import CODING as NAMES
from coterie.team.planning import BACKENDS
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted


@bundle("name", sorted(name for name in BACKENDS if name in CODING or name not in NAMES))
def test_a_backend_that_a_file_may_name_is_there(name: str) -> None:
    """What planning accepts, a run can ask."""
    said: list[object] = []

    async def ask() -> None:
        turns = local_turns(model=ModelBackend(environment={}))
        session = await turns.start(request(agent(backend=name, argv=("true",))), said.append)
        await session.interrupt()
        said.append(await session.result())
        await turns.close()

    asyncio.run(ask())

    assert f"the backend {name!r}" not in str(said)


def test_a_scripted_agent_answers_by_rote() -> None:
    """As in a rehearsal: turn n gives the n-th value of each declared output."""
    verdict = Wanted(name="verdict", type="enum", values=("approve", "revise"))

    result, _ = VirtualClock().run(asked(local_turns(), request(agent(backend="scripted", outputs=(verdict,)))))

    assert isinstance(result, Answer)
    assert (result.text, result.outputs) == ("a 1", {"verdict": "approve"})


def test_a_program_that_is_not_there_is_known_before_the_run(tmp_path: Path) -> None:
    """One line for each program; one with a path or a placeholder, and one on an agent's own PATH, may be there."""
    program = tmp_path / "bin" / "no-such-program"
    program.parent.mkdir()
    program.touch(0o755)
    agents = (
        agent("a", argv=("no-such-program",)),
        agent("b", argv=("no-such-program",), env={"PATH": str(program.parent)}),
        agent("c", argv=("no-such-program",), env={"PATH": "bin"}, cwd=str(tmp_path)),
        agent("d", argv=("./later",)),
        agent("e", argv=("{python}",)),
        agent("f", kind="action", steps=(("true",), ("no-such-tool",), ("no-such-program",))),
        agent(
            "g", backend="scripted", argv=("no-such-tool",), options={"gates": (("no-such-gate", "x"), ("./later",))}
        ),
        agent("unused", argv=("no-such-tool",)),
    )
    flow = FlowPlan(mentions=tuple("abcdefg"), groups=())

    plan = Plan(name="t", agents={one.name: one for one in agents}, coordination=flow)
    assert absent_programs(agents_of(plan)) == (
        "the program 'no-such-program' is not on the PATH yet; a, f will need it",
        "the program 'no-such-tool' is not on the PATH yet; f will need it",
        "the program 'no-such-gate' is not on the PATH yet; g will need it",
    )


def test_a_fallback_is_looked_at_before_the_run_too() -> None:
    """And the fallback of a fallback: it is called when nobody is there to mend it. One is looked at once."""
    named = {"a": "b", "b": "c", "c": "", "d": "b", "e": ""}
    agents = {name: AgentPlan(name=name, fallback=fallback) for name, fallback in named.items()}
    plan = flow("a -> d", **agents)

    assert [name for name, _ in agents_of(plan)] == ["a", "d", "b", "c"]
