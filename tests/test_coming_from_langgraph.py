"""What `docs/coming-from-langgraph.md` says of each part of LangGraph, tried."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import coterie
from coterie.errors import TopologyError
from coterie.testing import rehearse, simulate

PAGE = Path(__file__).parents[1] / "docs" / "coming-from-langgraph.md"
FAILED: list[int] = []


def scout(prompt: str) -> list[str]:
    return ["tea", "coffee"]


def read(item: str) -> int:
    return len(item)


def total(read: list[int]) -> int:
    return sum(read)


def judge(prompt: str) -> Literal["revise", "done"]:
    return "revise"


def write(judge: str, prompt: str) -> str:
    return f"{prompt}, {judge}"


def shaky(prompt: str) -> str:
    FAILED.append(1)
    if len(FAILED) == 1:
        raise ConnectionError("once")
    return "done"


def speak(context: coterie.Context) -> str:
    context.emit("half")
    return "whole"


def mapped() -> coterie.TypedFlow[int]:
    scouts, reads, totals = coterie.agent(scout), coterie.agent(read), coterie.agent(total)
    arrows = [(scouts >> reads).each(scouts.result, at_most=5), reads >> totals]
    return coterie.flow("sizes", [scouts, reads, totals], arrows, result=totals)


def publish(prompt: str) -> str:
    return prompt


def judged(answer: str = "done", most: int = 2) -> coterie.TypedFlow[str]:
    judges, writes, ends = coterie.agent(judge), coterie.agent(write), coterie.agent(publish)
    again, over = (judges >> writes).when(judges.result == "revise"), (judges >> ends).when(judges.result == answer)
    return coterie.flow("judged", [judges, writes, ends], [again, over, (writes >> judges).max(most)], result=ends)


def most_turns(team: coterie.Topology) -> int:
    most = coterie.check(team).worst
    assert most is not None
    return most.turns


def run(team: coterie.Topology, given: str = "go") -> coterie.Outcome:
    return asyncio.run(coterie.run(team, given))


def nodes() -> None:
    """All faults of a flow come at once."""
    one, other = (coterie.agent(name, command=["true"], outputs={"said": Literal["ok"]}) for name in "ab")
    arrows = [(one >> other).when(one.said == "yes"), (other >> one).when(other.said == "no").max(1)]
    with pytest.raises(TopologyError) as raised:
        coterie.flow("bad", [one, other], arrows)
    assert len(raised.value.diagnostics) >= 2


def state() -> None:
    """A value comes by its name."""
    assert run(mapped()).result == 9


def conditions() -> None:
    """One that can never hold is refused."""
    with pytest.raises(TopologyError, match="never"):
        judged("never said")


def goto() -> None:
    """The output of the judge chooses the arrow."""
    asked = [
        turn["agent"]
        for turn in rehearse(coterie.plan(judged()), {}, {"judge": [{"outputs": {"result": "done"}}]})["turns"]
    ]
    assert asked == ["judge", "publish"]


def sends() -> None:
    """The bound of a map is part of its proof."""
    assert most_turns(mapped()) == 7


def recursion() -> None:
    """The most turns of a cycle are proved."""
    assert most_turns(judged(most=4)) == 10


def subgraph() -> None:
    """A team is a node, and its result a value."""
    sizes, tell = coterie.agent("read", mapped()), coterie.agent("tell", write_size)
    assert run(coterie.flow("outer", [sizes, tell], [sizes >> tell], result=tell)).result == "9 letters"


def write_size(read: int) -> str:
    return f"{read} letters"


def checkpoints() -> None:
    """A run under an id is found again, and not repeated; killed at any record it ends as it would have."""

    async def twice() -> list[str]:
        found = [coterie.start(mapped(), "go", id="sizes-1") for _ in range(2)]
        return [(await one).run for one in found]

    assert asyncio.run(twice()) == ["sizes-1"] * 2
    for seed in range(5):
        simulate(mapped(), seed)


def interrupts() -> None:
    """The answer of a person may come from any process."""
    boss, shouts = coterie.human("boss", "Send?"), coterie.agent("shout", answered)
    waiting = run(coterie.flow("ask", [boss, shouts], [boss >> shouts], result=shouts))
    assert waiting.reason == "waiting"
    stopped = coterie.get(waiting.run)
    [question] = stopped.questions()
    stopped.answer(question.turn, "yes")
    assert asyncio.run(coterie.resume(waiting.run)).status == "completed"


def answered(boss: str) -> str:
    return boss.upper()


def time_travel() -> None:
    """Another answer of an earlier turn gives another result; the original stays."""
    first = run(mapped())
    again = asyncio.run(coterie.fork(first.run, outputs={"scout#1": {"result": ["a"]}}, team=mapped()))
    assert (again.result, first.result) == (1, 9)


def streams() -> None:
    """Records and text in one order, with positions."""

    async def follow() -> list[coterie.RunEvent | coterie.RunText]:
        speaks = coterie.agent(speak)
        started = coterie.start(coterie.flow("speech", [speaks], result=speaks), "go")
        return [event async for event in started.events(text=True)]

    events = asyncio.run(follow())
    assert "half" in [event.text for event in events if isinstance(event, coterie.RunText)]
    assert [event.position for event in events] == sorted(event.position for event in events)


def retries() -> None:
    """A failure is retried as often as the agent says."""
    FAILED.clear()
    tries = coterie.agent(shaky, max_retries=2, timeout_seconds=60)
    assert run(coterie.flow("tries", [tries], result=tries)).result == "done"
    assert len(FAILED) == 2


def tools() -> None:
    """A function is a tool of a model; the plan names it."""
    finds = coterie.agent("finds", type="model", model="sonnet", tools=[scout])
    assert "scout" in str(coterie.plan(coterie.flow("found", [finds])))


def fakes() -> None:
    """Without a model, and with crashes."""
    simulate(judged(), 1)


ROWS: dict[str, Callable[[], None]] = {
    "StateGraph, nodes": nodes,
    "state and reducers": state,
    "add_conditional_edges": conditions,
    "Command(goto=…)": goto,
    "Send": sends,
    "recursion_limit": recursion,
    "subgraph": subgraph,
    "checkpointer, thread_id of a run": checkpoints,
    "interrupt, Command(resume=…)": interrupts,
    "update_state, time travel": time_travel,
    "stream, its modes": streams,
    "RetryPolicy, time-outs": retries,
    "create_react_agent, ToolNode": tools,
    "tests with fake models": fakes,
}


def test_every_row_is_tried() -> None:
    """A row of the page has a test below, and no test is without a row."""
    rows = re.findall(r"^\| (.+?) \|", PAGE.read_text(encoding="utf-8").partition("|---")[2], re.MULTILINE)

    assert [row.replace("`", "") for row in rows] == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_says_holds(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second column does what the third says."""
    monkeypatch.chdir(tmp_path)

    ROWS[row]()
