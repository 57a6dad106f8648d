"""Forks with another input or another answer: what follows is decided anew, and what means nothing is refused."""

import asyncio
import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import value_agents as values

import coterie
from coterie import agent, flow
from coterie.errors import UsageError
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnFinished, TurnStarted


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def desk() -> Any:
    """Classifies; a technical question goes to one function, one about money to another."""
    kind, tech, money = agent(values.classify), agent(values.sees_weight), agent(values.sees_prompt)
    arrows = [(kind >> tech).when(kind.kind == "tech"), (kind >> money).when(kind.kind == "money")]
    return flow("desk", [kind, tech, money], arrows)


def lists(prompt: str) -> list[str]:
    return prompt.split()


def shouts(item: str) -> str:
    return item.upper()


def test_the_answers_of_a_mapped_agent_are_named_by_item() -> None:
    """Its latest turn would be that of any item; the set's lists follow from the changed answer."""
    lister, shouter = agent(lists), agent(shouts)
    team = flow("words", [lister, shouter], [(lister >> shouter).each(lister.result, at_most=3)])
    run = asyncio.run(coterie.run(team, "a b")).run

    for name in ("shouts", "shouts@1"):
        with pytest.raises(UsageError, match="shouts#"):
            forked(run, outputs={name: "X"})
    assert forked(run, outputs={"shouts#1": {"result": "X"}}).result.outputs["shouts"]["result"] == ["X", "B"]


def begun() -> str:
    return asyncio.run(coterie.run(desk(), "old")).run


def forked(run: str, **how: Any) -> coterie.Outcome[Any]:
    return asyncio.run(coterie.fork(run, **how))


def started(run: str) -> list[str]:
    return [one.turn for one in Runs(Path(".coterie")).read(run) if isinstance(one, TurnStarted)]


@pytest.mark.parametrize("name", ["classify", "classify#1"])
def test_another_answer_takes_the_other_way(name: str) -> None:
    """The arrows read the changed output; the original keeps its own, and the fork says who changed it."""
    run = begun()
    outcome = forked(run, outputs={name: {"kind": "money"}})

    assert outcome.result.text == "old"
    assert started(outcome.run) == ["classify#1", "sees_prompt#1"]
    [answer] = [one for one in Runs(Path(".coterie")).read(outcome.run) if isinstance(one, TurnFinished)][:1]
    assert (answer.source, answer.outputs) == ("operator", {"kind": "money", "weight": None})
    assert started(run) == ["classify#1", "sees_weight#1"]


def test_another_input_is_read_from_the_first_turn_on() -> None:
    """Values that are not named stay; with both changes each is read where it is."""
    run = begun()

    assert forked(run, input="new", outputs={"classify": {"kind": "money"}}).result.text == "new"
    outcome = forked(run, input={"weight": 3})
    assert started(outcome.run) == ["classify#1", "sees_weight#1"]
    assert next(iter(Runs(Path(".coterie")).read(outcome.run))).input == {"prompt": "old", "weight": 3}  # type: ignore[attr-defined]


def test_an_answer_that_readers_would_get_as_another_one_is_refused() -> None:
    """As where the function itself gives it; one that its type says is taken."""
    values.GIVEN[:] = [1]
    giver, reader = agent(values.gives), agent(values.sees_given)
    run = asyncio.run(coterie.run(flow("f", [giver, reader], [giver >> reader], result=reader), "x")).run

    with pytest.raises(UsageError, match="the output 'result' of gives#1 is tuple, which its readers would get as lis"):
        forked(run, outputs={"gives#1": {"result": (1, 2)}})
    values.GIVEN[:] = [{"a": 1}]
    assert forked(run, outputs={"gives": {"result": {"a": 1}}}).result.outputs["sees_given"] == {"result": True}

    first, second = agent(values.dates), agent(values.sees_date)
    run = asyncio.run(coterie.run(flow("f", [first, second], [first >> second]), "x")).run
    assert forked(run, outputs={"dates": values.Dated(datetime.date(2027, 1, 1))}).result.text == "2027"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"outputs": {"clasify": {"kind": "money"}}}, "no answer of 'clasify' to change; did you mean"),
        ({"outputs": {"classify": {"king": "money"}}}, "classify#1 has no output 'king'; did you mean 'kind'"),
        ({"outputs": {"classify": {"kind": "none"}}}, "classify#1 could not answer that"),
        ({"outputs": {"classify": "money"}}, "has the outputs kind, weight"),
        ({"outputs": {"sees_weight": {"result": 1}}, "at": 4}, "after record 4"),
        ({"input": {"wieght": 2}}, "the run has no input 'wieght'; did you mean 'weight'"),
        ({"changes": {"prompt": "new"}}, "no agent of 'desk' has 'prompt'"),
        ({"changes": {"model": "m"}}, "no agent of 'desk' has 'model'"),
        ({"prompts": {"classify": "new"}}, "'classify' is a function, which has no 'prompt'"),
        ({"models": {"classify": "m"}}, "'classify' is a function, which has no 'model'"),
    ],
)
def test_changes_that_mean_nothing_are_refused(how: Any, why: str) -> None:
    """The message names what it could be, and no fork is left behind."""
    run = begun()
    with pytest.raises(UsageError) as raised:
        forked(run, **how)

    assert why in str(raised.value)
    assert len(coterie.runs()) == 1


def test_an_unknown_input_of_a_team_without_functions_is_refused() -> None:
    """Nothing could read it but the prompts, which show the inputs that the run was begun with."""
    run = asyncio.run(coterie.run(flow("c", [agent("c", command=["cat"])]), {"prompt": "old", "depth": 1})).run

    with pytest.raises(UsageError, match="no input 'dept'; did you mean 'depth'"):
        forked(run, input={"dept": 2})
    assert "depth: 2" in forked(run, input={"depth": 2}).result.text


def test_the_command_changes_input_and_answers() -> None:
    """`--input` and `--output` do what the function does."""
    Path("t.at").write_text(
        "topology t : [pipeline] {\n"
        '  agent a { model: x  extensions { coterie { command: ["cat"] } } }\n'
        '  agent b { model: x  extensions { coterie { command: ["cat"] } } }\n'
        "  flow { a -> b }\n}\n"
    )

    def coterie_(*words: str) -> dict[str, Any]:
        done = subprocess.run([sys.executable, "-m", "coterie", *words, "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    run = coterie_("run", "t.at", "old", "--yes")["run"]
    assert "new" in str(coterie_("fork", run, "--input", "prompt=new")["result"])
    refused = subprocess.run(
        [sys.executable, "-m", "coterie", "fork", run, "--output", "a.x=1"], capture_output=True, text=True
    )
    assert (refused.returncode, "a#1 has no output 'x'" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.slow  # three processes
def test_the_command_refuses_an_input_that_no_function_reads() -> None:
    """With the words of Python; where the functions are gone, any name may mean something and is taken."""
    Path("desk_agents.py").write_text("def weighs(weight: int = 7) -> int:\n    return weight\n")
    Path("begins.py").write_text(
        "import asyncio, coterie\n"
        "from desk_agents import weighs\n"
        'print(asyncio.run(coterie.run(coterie.flow("desk", [coterie.agent(weighs)]), "old")).run)\n'
    )
    run = subprocess.run([sys.executable, "begins.py"], capture_output=True, text=True, check=True).stdout.strip()

    def forked_with(name: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "coterie", "fork", run, "--no-resume", "--input", f"{name}:=2"]
        return subprocess.run(words, capture_output=True, text=True)

    refused = forked_with("wieght")
    assert (refused.returncode, len(coterie.runs())) == (2, 1)
    assert "the run has no input 'wieght'; did you mean 'weight'" in refused.stderr
    assert forked_with("weight").returncode == 0
    Path("desk_agents.py").unlink()
    assert forked_with("wieght").returncode == 0
