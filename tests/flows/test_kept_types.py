"""99 types of values between functions, flows, patterns, programs, processes and forks."""

import asyncio
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import kept_types as kept
import pytest

import coterie
from coterie import agent, flow
from coterie.errors import UsageError
from coterie.team.topology.typed.fits import misfit
from coterie.team.topology.typed.values import RESULT, as_outputs, fields_of

VALUES = {name: value for name, _, value in kept.CASES}
TYPES = {name: type_ for name, type_, _ in kept.CASES}
CARRIES_ON = """
import asyncio, sys
import coterie, kept_types

async def main():
    for name in kept_types.NAMES:
        limits = coterie.Limits(max_turns=-1)
        outcome = await coterie.resume(f"kept-{name}", team=kept_types.team(name), limits=limits)
        value = next(one for known, _, one in kept_types.CASES if known == name)
        print(name, kept_types.same(outcome.result, value) or outcome)

asyncio.run(main())
"""


def played(team: Any, given: Any = "go", **options: Any) -> coterie.Outcome[Any]:
    return asyncio.run(coterie.run(team, given, **options))


def test_there_are_99_types() -> None:
    """Each has a name of its own."""
    assert len(VALUES) == len(kept.CASES) == 99


@pytest.mark.parametrize("name", kept.NAMES)
def test_a_value_arrives_as_it_was(name: str) -> None:
    """In functions, in a flow, in a pattern and in a program that are nodes, and as the result of the run."""
    outcome = played(kept.team(name))

    assert outcome.status == "completed", outcome.reason
    assert kept.same(outcome.result, VALUES[name])


@pytest.mark.parametrize("name", kept.NAMES)
def test_a_value_arrives_from_the_input_of_a_run_and_of_a_node(name: str) -> None:
    """A value of the input is read with the type of the parameter, and so is one that a node gives its team."""
    value, keep = VALUES[name], agent("keep", getattr(kept, f"keep_{name}"))
    inner = flow("inner", [keep], result=keep)
    desk = agent("desk", inner, with_={"give": value})

    assert kept.same(played(inner, {"give": value}).result, value)
    assert kept.same(played(flow("outer", [desk], result=desk)).result, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in kept.NAMES if one not in ("empty_dataclass", "nothing")])
def test_a_fork_has_another_value(name: str) -> None:
    """The answer of a turn is changed to a value, or to its fields; the functions that follow read it with its type."""
    value = VALUES[name]
    team = kept.team(name)
    run = played(team, "go", id=f"fork-{name}").run
    answer = value if fields_of(TYPES[name]) is not None or name == "anything" else {RESULT: value}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = asyncio.run(coterie.fork(run, team=team, outputs={"give#1": answer}))
    assert kept.same(outcome.result, value)


@pytest.mark.slow
def test_values_arrive_in_another_process() -> None:
    """A run that stopped after the first turn is resumed by a process that reads the value from the journal."""
    for name in kept.NAMES:
        stopped = played(kept.team(name), "go", id=f"kept-{name}", limits=coterie.Limits(max_turns=1))
        assert stopped.status == "stopped"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(kept.__file__).parent)])}
    done = subprocess.run([sys.executable, "-c", CARRIES_ON], env=environment, capture_output=True, text=True)

    assert done.stdout.splitlines() == [f"{name} True" for name in kept.NAMES], done.stderr[-2000:]


@pytest.mark.parametrize("name", kept.NAMES)
def test_a_wrong_type_is_found_when_the_flow_is_built(name: str) -> None:
    """A reader whose type is written as another kind of JSON; what may be of any kind is found by its turn only."""
    plain = as_outputs(VALUES[name], whole=True)[RESULT]
    wanted: Any = list[int] if isinstance(plain, dict) else dict[str, int]
    if TYPES[name] in (Any, object) or name in ("decimal", "root_model"):
        assert misfit(TYPES[name], wanted) == ""
        return
    give, reader = (
        agent("give", getattr(kept, f"give_{name}")),
        agent(reads_list if wanted == list[int] else reads_dict),
    )
    with pytest.raises(UsageError, match="'give' as "):
        flow("f", [give, reader], [give >> reader])


def reads_list(give: list[int]) -> str:
    return "read"


def reads_dict(give: dict[str, int]) -> str:
    return "read"
