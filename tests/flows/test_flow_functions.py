"""Functions as agents: what they read and give, how they fail, and how they are found again."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import flow_agents as functions
import pytest

import coterie
from coterie import agent, flow
from coterie.errors import UsageError
from coterie.history.journal.records import Record, RunStopped, TurnStarted
from coterie.team.topology.model import Topology
from coterie.testing import simulate


def played(team: Topology, given: Any = "tea", **options: Any) -> coterie.Outcome[Any]:
    return asyncio.run(coterie.run(team, given, **options))


def loop() -> Topology:
    editor, reviewer = agent(functions.editor), agent(functions.reviewer)
    again = (reviewer >> editor).when(reviewer.verdict == "revise").max(2)
    return flow("note", [editor, reviewer], [editor >> reviewer, again], result=reviewer)


def test_a_loop_of_functions_gives_a_value_of_its_type() -> None:
    """A function reads the answers of agents by name, and its own type is the result."""
    outcome = played(loop())

    assert outcome.result == functions.Review("approve", [functions.Issue(1, "short")])
    assert outcome.usage.turns == 4


def test_a_class_whose_only_field_is_called_result_is_its_own_type() -> None:
    """`result` is also the output of a function that returns no fields."""
    one = agent(functions.measured)

    assert played(flow("one", [one], result=one)).result == functions.Measured(3)


def test_parameters_are_outputs_inputs_and_defaults() -> None:
    """A parameter is an agent, an output, a value of the input, or its default, each with its type."""
    point, place, sees = agent(functions.point), agent(functions.place), agent(functions.sees_place)
    team = flow("trip", [point, place, sees], [point >> place >> sees], result=sees)

    assert played(team, {"prompt": "go", "depth": 4}).result is True


def test_the_input_of_a_run_may_be_typed() -> None:
    """A dataclass is the named values of its fields."""
    point, place, sees = agent(functions.point), agent(functions.place), agent(functions.sees_place)
    team = flow("trip", [point, place, sees], [point >> place >> sees], result=sees)

    assert played(team, functions.Trip("go", 4)).result is True
    with pytest.raises(UsageError, match="the input of a team must be a text or named values"):
        played(team, 3)


def test_outputs_of_several_agents_are_read_by_field() -> None:
    """Fields of an answer are parameters of later functions, also of those that do not follow it at once."""
    editor, counts, publisher = agent(functions.editor), agent("counts", command=["true"]), agent(functions.publisher)
    team = flow("paper", [editor, counts, publisher], [editor >> counts >> publisher], result=publisher)

    assert played(team).result == "About tea (1)"


def test_structs_enums_and_mappings_come_back_as_they_were() -> None:
    """Types of msgspec and enums survive the journal."""
    risky, reads = agent(functions.risky), agent(functions.reads_risk)

    assert played(flow("risk", [risky, reads], [risky >> reads], result=reads)).result == "high 0.5 {'a': 1}"


def test_a_pydantic_model_is_a_type_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pydantic model is validated by itself; nested models and defaults too."""
    pytest.importorskip("pydantic")
    (tmp_path / "pydantic_agents.py").write_text(
        "from pydantic import BaseModel, Field\n"
        "class Item(BaseModel):\n    name: str\n    price: float = Field(gt=0)\n"
        "class Order(BaseModel):\n    items: list[Item]\n    note: str = ''\n"
        "def orders(prompt: str) -> Order:\n    return Order(items=[Item(name=prompt, price=2)])\n"
        "def total(orders: Order) -> float:\n    return sum(one.price for one in orders.items)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import pydantic_agents

    orders, total = agent(pydantic_agents.orders), agent(pydantic_agents.total)
    assert played(flow("shop", [orders, total], [orders >> total], result=total)).result == 2.0
    outcome = played(flow("shop", [orders], result=orders))
    assert isinstance(outcome.result, pydantic_agents.Order)


def test_a_reply_that_does_not_fit_its_type_is_asked_for_again(tmp_path: Path) -> None:
    """A program's reply is checked against the JSON Schema, and the next prompt says what was wrong."""
    script = tmp_path / "reply.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "prompt, seen = sys.stdin.read(), pathlib.Path('seen')\n"
        "tries = seen.read_text().count('|') if seen.exists() else 0\n"
        "seen.open('a').write(prompt + '|')\n"
        "line = 'seven' if tries == 0 else 7\n"
        "print('```json'); "
        "print(json.dumps({'verdict': 'revise', 'issues': [{'line': line, 'text': 'x'}]})); print('```')\n"
    )
    critic = agent("critic", command=[sys.executable, str(script)], cwd=str(tmp_path), outputs=functions.Review)
    outcome = played(flow("crit", [critic], result=critic))

    assert outcome.result == functions.Review("revise", [functions.Issue(7, "x")], "")
    prompts = (tmp_path / "seen").read_text().split("|")
    assert "- `verdict`: one of" in prompts[0]
    assert "- `note`: a value that fits this JSON Schema (may be left out)" in prompts[0]
    assert "the output 'issues' does not fit its schema: [0].line must be integer" in prompts[1]


def test_a_recursive_type_is_checked() -> None:
    """A type that contains itself has a schema, too."""
    script = 'cat >/dev/null; echo \'{"name": "root", "children": [{"name": "leaf", "children": []}]}\''
    tree = agent("tree", command=["sh", "-c", script], outputs=functions.Node)
    assert played(flow("tree", [tree], result=tree)).result == functions.Node("root", [functions.Node("leaf")])
    wrong = agent("tree", command=["sh", "-c", script.replace('"leaf"', "3")], outputs=functions.Node)
    outcome = played(flow("tree", [wrong], result=wrong))
    assert "must be string" in outcome.reason


def test_a_result_of_a_failed_run_says_why_there_is_none() -> None:
    """Using the result of a run that failed raises with the reason."""
    outcome = played(flow("bad", [agent(functions.fails)], result=agent(functions.fails)))

    assert outcome.status == "failed"
    assert "ValueError: no such tea" in outcome.reason
    assert not outcome.result
    with pytest.raises(coterie.CoterieError, match=r"the run has no result: it failed: .*no such tea"):
        outcome.result.upper()


def test_what_is_no_json_fails_the_turn() -> None:
    """A function that returns what a journal cannot hold fails with its name."""
    outcome = played(flow("odd", [agent(functions.not_json)]))

    assert "what not_json() returned is not JSON" in outcome.reason


def test_an_input_that_nobody_gives_is_named() -> None:
    """A parameter that neither an agent nor the input gives fails the turn, and says so."""
    point, place, sees = agent(functions.point), agent(functions.place), agent(functions.sees_place)
    outcome = played(flow("trip", [point, place, sees], [point >> place >> sees]))

    assert "no agent gives 'depth', which sees_place() reads, nor does the input" in outcome.reason


def test_an_input_whose_type_is_not_known_is_named() -> None:
    """As one that does not have its type; it is no crash, which would be tried again."""
    outcome = played(flow("half", [agent(functions.reads_half)]), {"half": {"known": 1}})

    assert "(failed): the parameter 'half' does not have its type: NameError: name 'Nowhere'" in outcome.reason


def test_an_input_may_have_a_name_like_another_one() -> None:
    """Few letters in common with `prompt`, or with an agent, are no mistake."""
    outcome = played(flow("opts", [agent(functions.opts)]), {"opts": {"depth": 3}})

    assert outcome.result.text == "depth"


def test_a_flow_of_functions_survives_every_crash() -> None:
    """Crash schedules of a flow in Python end as an uncrashed run."""
    for seed in range(15):
        simulate(loop(), seed)


STEPS = """
import os
from dataclasses import dataclass

@dataclass
class Draft:
    body: str
    version: int

def note(step):
    with open(os.environ["FLOW_LEDGER"], "a") as ledger:
        ledger.write(step + "\\n")

async def draft(prompt: str) -> Draft:
    note("draft")
    return Draft(prompt + "!", 1)

def polish(prompt: str) -> str:
    note("polish")
    return "polished"

async def publish(body: str, polish: str, answer: str) -> str:
    note("publish")
    return f"{body} {polish} {answer}"
"""

PROGRAM = """
import asyncio, itertools, os, signal, sys
import coterie, steps
from coterie import agent, flow, human

draft, polish = agent(steps.draft), agent("polish", flow("inner", [agent(steps.polish)]))
boss, publish = human("boss", "Publish?", outputs={"answer": str}), agent(steps.publish)
team = flow("mixed", [draft, polish, boss, publish], [draft >> polish >> boss >> publish], result=publish)
records = itertools.count(1)

def kill(run, record):
    if next(records) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

async def answer(request):
    return {"answer": "yes"}

async def main():
    if sys.argv[1:]:
        await coterie.run(team, "tea", observe=kill, human=answer)
    else:
        print((await coterie.resume("last", team=team, human=answer)).result)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_flow_of_functions_is_killed_at_every_record_and_resumed(tmp_path: Path) -> None:
    """Functions, one in a team of its own, and a person: a process that dies at any record is resumed by the next.

    Every second time the command line resumes it first, until it waits for the person.
    """
    (tmp_path / "team.py").write_text(PROGRAM)
    (tmp_path / "steps.py").write_text(STEPS)

    def played(*command: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"FLOW_LEDGER": str(ledger)}
        return subprocess.run([sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True)

    for record in range(1, 30):
        ledger = tmp_path / f"ledger-{record}"
        killed = played("team.py", str(record))
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        if record % 2:
            played("-m", "coterie", "resume", "last")
        resumed = played("team.py")
        if "has completed" not in resumed.stderr:
            assert resumed.stdout == "tea! polished yes\n", resumed.stderr
        called = ledger.read_text().split()
        assert set(called) == {"draft", "polish", "publish"}
        assert len(called) <= 4, "at most the step in flight is repeated"
    assert record > 12


def test_events_are_seen_as_they_happen_and_by_every_reader() -> None:
    """A started run yields its durable records in order, to each iterator from the first."""

    async def main() -> None:
        run = coterie.start(loop(), "tea")
        topics = [event.topic async for event in run]
        outcome = await run
        assert topics[0] == "run.started"
        assert topics[-1] == "run.finished"
        assert [event.topic async for event in run] == topics
        assert outcome.run == run.id
        assert outcome.result.verdict == "approve"

    asyncio.run(main())


def test_a_function_that_cancels_its_own_task_has_failed() -> None:
    """The run comes to an end, though the task that it cancels is the one that waits for the function."""
    only = agent(functions.cancels_its_task, max_retries=0)

    async def main() -> None:
        outcome = await asyncio.wait_for(coterie.run(flow("t", [only]), "go"), 60)
        assert outcome.status == "failed"
        assert "it cancelled its own task" in outcome.reason

    asyncio.run(main())


def test_a_started_run_is_cancelled_and_resumed() -> None:
    """`cancel` interrupts the run; it can be resumed, also if it had not begun."""

    async def main() -> None:
        at_once = await coterie.start(flow("wait", [agent(functions.waits)]), "tea").cancel()
        assert (at_once.status, at_once.reason) == ("stopped", "interrupted")
        assert at_once.run
        run = coterie.start(flow("wait", [agent(functions.waits)]), "tea")
        async for event in run:
            if event.topic == "turn.started":
                break
        outcome = await run.cancel()
        assert (outcome.status, outcome.reason) == ("stopped", "interrupted")
        assert outcome.run == run.id

    asyncio.run(main())


def test_a_run_whose_time_is_out_stops_and_is_cancelled() -> None:
    """As any coroutine, and once it has stopped; `resume` and `fork`, too."""
    last: list[Record] = []

    async def until_a_turn_has_begun(begin: Callable[..., Awaitable[Any]]) -> None:
        async with asyncio.timeout(None) as scope:

            def observe(run: str, record: Record) -> None:
                last[:] = [record]
                if isinstance(record, TurnStarted):
                    scope.reschedule(0.0)

            await begin(observe=observe)

    team = flow("wait", [agent(functions.waits)])
    for begin in (partial(coterie.run, team, "tea"), coterie.resume, coterie.fork):
        with pytest.raises(TimeoutError):
            asyncio.run(until_a_turn_has_begun(begin))
        assert isinstance(last[0], RunStopped)
        assert last[0].reason == "interrupted"


def test_a_run_in_a_scope_of_anyio_stops_in_order() -> None:
    """Such a scope cancels its task in each turn of the event loop, until it has ended; as an endpoint of FastAPI."""
    last: list[Record] = []

    async def main() -> None:
        with anyio.CancelScope() as scope:

            def observe(run: str, record: Record) -> None:
                last[:] = [record]
                if isinstance(record, TurnStarted):
                    scope.cancel()

            await coterie.run(flow("wait", [agent(functions.waits)]), "tea", observe=observe)
        assert scope.cancelled_caught

    asyncio.run(main())
    assert isinstance(last[0], RunStopped)


def test_a_cancelled_task_that_cleans_up_may_run_a_team() -> None:
    """The cancellation before it is not that of the run."""

    async def cleaning() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            done.append(await coterie.run(flow("one", [agent(functions.writer)]), "tea"))
        return ""

    done: list[coterie.Outcome] = []

    async def main() -> None:
        task = asyncio.create_task(cleaning())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert done[0].status == "completed"


def test_what_a_run_raises_is_raised_where_it_is_used() -> None:
    """A team that cannot be run raises where it is iterated over, and where it is awaited."""

    async def main() -> None:
        run = coterie.start("missing.at", "tea")
        with pytest.raises(coterie.TopologyError, match=r"missing\.at"):
            async for _ in run:
                pass
        with pytest.raises(coterie.TopologyError, match=r"missing\.at"):
            await run

    asyncio.run(main())


def test_a_resumed_and_a_forked_run_give_the_type_of_their_flow() -> None:
    """With `team`, as `run` does; without it, the outputs by name."""
    node = agent(functions.publisher)
    team = flow("typed", [agent(functions.writer), node], [agent(functions.writer) >> node], result=node)
    stopped = asyncio.run(coterie.run(team, "tea", limits=coterie.Limits(max_turns=1)))
    assert stopped.status == "stopped"

    resumed = asyncio.run(coterie.resume(stopped.run, team=team, limits=coterie.Limits(max_turns=-1)))
    forked = asyncio.run(coterie.fork(resumed.run, team=team))
    plain = asyncio.run(coterie.fork(resumed.run))
    limited = asyncio.run(coterie.fork(resumed.run, team=team, at=2, limits=coterie.Limits(max_turns=1)))

    assert resumed.result == forked.result == "About tea (1)"
    assert plain.result.outputs == {"publisher": {"result": "About tea (1)"}}
    assert (limited.status, limited.reason) == ("stopped", "max_turns")
    assert not limited.result


def test_an_argument_of_a_started_run_says_what_it_takes() -> None:
    """At the call: the function that hears of the records is wrapped, and would be wrong only at the first."""

    async def main() -> None:
        for wrong, why in (
            ({"observe": 5}, "observe is a function, not 5"),
            ({"max_turns": 3}, "start() has no argument 'max_turns'; write limits=coterie.Limits(max_turns=3)"),
        ):
            with pytest.raises(coterie.CoterieError) as refused:
                coterie.start(loop(), "tea", **wrong)  # type: ignore[call-overload]
            assert str(refused.value) == why

    asyncio.run(main())
