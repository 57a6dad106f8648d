"""A run that maps a node over a list: killed anywhere, failed and retried, and what its items are given."""

import asyncio
import itertools
import re
from typing import Any

import pytest
from mapped_flows import answer_of, mapped_plan, random_mapped_flow
from msgspec.structs import replace
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.errors import RetryRefused
from coterie.execution.kernel.items import name_of
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.execution.runs.retry import reopening
from coterie.history.engines.commands import Item
from coterie.history.journal.records import (
    AttemptInterrupted,
    OperatorSaid,
    Record,
    RunFinished,
    SetEnded,
    SetStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.runs import RunReader
from coterie.history.views.run import fold
from coterie.history.views.timeline import sentence
from coterie.history.views.tree import RunNode, tree
from coterie.team.planning.plan import AgentPlan, Limits, MappedFlowPlan, MapPlan, Plan, Wanted
from coterie.testing.oracle import ended, uncrashed

BROKEN = Failure(kind="exit", reason="exit status 1")
FILES = Answer(text="files", outputs={"files": ["a", "b", "c", "d"]})
DOCUMENTS = ("a", "b", "c", "d")


def mapped(plan: Plan, **maps: MapPlan) -> Plan:
    """*plan* with maps."""
    found = plan.flow
    assert found is not None
    coordination = MappedFlowPlan(mentions=found.mentions, groups=found.groups, maps=maps)
    return replace(plan, coordination=coordination)


def review(**reader: Any) -> Plan:
    """A scout that gives files, a reader of each, at most two at once, and a writer."""
    agents = {
        "scout": AgentPlan(name="scout", outputs=(Wanted(name="files", type="list"),)),
        "reader": AgentPlan(name="reader", outputs=(Wanted(name="verdict", type="text"),), **reader),
    }
    how = MapPlan(agent="scout", field="files", at_most=4, at_once=2)
    return mapped(flow("scout -> reader -> writer", **agents), reader=how)


def reads(*, fails: dict[str, int]) -> Any:
    """A reader that fails so many attempts of an item."""

    def read(request: Any) -> Any:
        item = request.env["COTERIE_ITEM"]
        if request.attempt <= fails.get(item, 0):
            return BROKEN
        return Answer(text=f"read {item}", outputs={"verdict": f"{item} is fine"})

    return read


def cast(**fails: int) -> Cast:
    return Cast({"scout": [FILES], "reader": [reads(fails=fails)]})


def last_set(stage: Stage) -> dict[str, Any]:
    """The outputs of the run's last set, which its writer was shown."""
    shown = stage.cast.asked[-1].prompt
    return {item: f"read {item}" in shown for item in DOCUMENTS}


def test_a_failing_item_is_tried_again_and_the_set_joins_in_the_items_order() -> None:
    """Map and reduce; at most two items run at once, and an item keeps its place between its attempts."""
    stage = Stage(review(retry=2), cast(b=2))

    assert stage.start().status == "completed"

    starts = [(one.turn, one.attempt, one.item) for one in stage.records(TurnStarted) if one.agent == "reader"]
    assert sorted(starts) == [
        ("reader#1", 1, (1, 4)),
        ("reader#2", 1, (2, 4)),
        ("reader#2", 2, (2, 4)),
        ("reader#2", 3, (2, 4)),
        ("reader#3", 1, (3, 4)),
        ("reader#4", 1, (4, 4)),
    ]
    (began,), (ended,) = stage.records(SetStarted), stage.records(SetEnded)
    assert (began.set, began.items, began.inputs, began.given_by) == ("reader@1", 4, ("scout#1",), "scout#1")
    assert (ended.outputs, ended.done) == (("verdict",), 4)
    assert stage.records(TurnStarted)[-1].inputs == ("reader@1",)
    assert last_set(stage) == dict.fromkeys(DOCUMENTS, True)
    assert stage.cast.most == 2


@pytest.mark.parametrize("by", [None, 3])
def test_a_run_killed_after_any_append_ends_as_if_it_had_not_been(by: int | None) -> None:
    """Every prefix of the journal is continued: the same items, each answered once, and the same last prompt."""
    how = MapPlan(agent="scout", field="files", by=by, at_most=4, at_once=2)
    items = DOCUMENTS if by is None else ('["a","b","c"]', '["d"]')
    plan, fails = mapped(review(retry=2), reader=how), {items[by is None]: 2}
    whole = Stage(plan, cast(**fails))
    whole.start()
    records = whole.records()

    for kept in range(2, len(records)):
        again = Stage(plan, cast(**fails))
        again.clock.advance(1000.0)
        again.store.fill("r", records[:kept])
        assert again.resume().status == "completed", kept
        assert sorted(one.turn for one in again.records(TurnFinished)) == sorted(
            one.turn for one in whole.records(TurnFinished)
        ), kept
        assert [one.set for one in again.records(SetEnded)] == ["reader@1"], kept
        if again.cast.asked:  # else the writer had answered
            assert all(f"read {item}" in again.cast.asked[-1].prompt for item in items), kept


def test_an_item_is_given_itself_and_neither_the_list_nor_the_others() -> None:
    """Its prompt names its place; the answer of the agent that gave the list is not in it."""
    stage = Stage(review(), cast())
    stage.start()

    prompt = next(one.prompt for one in stage.cast.asked if one.turn == "reader#3")
    assert "# Item 3 of 4\n\n~~~text\nc\n~~~" in prompt
    assert "scout" not in prompt
    assert "read a" not in prompt


def test_an_item_that_comes_again_is_given_its_own_earlier_result() -> None:
    """Not those of the other items of the earlier set."""
    plan = flow("scout -> reader", "reader -> scout", **review().agents)
    assert plan.flow is not None
    there, back = plan.flow.groups
    plan = replace(plan, coordination=replace(plan.flow, groups=(there, replace(back, max=1))))
    plan = mapped(plan, reader=MapPlan(agent="scout", field="files", at_most=4))
    stage = Stage(plan, Cast({"scout": [FILES, FILES], "reader": [reads(fails={})]}))
    assert stage.start().status == "completed"

    prompt = next(one.prompt for one in stage.cast.asked if one.turn == "reader#7")
    assert "# Item 3 of 4" in prompt
    assert [item for item in "abcd" if f"read {item}" in prompt] == ["c"]


def retried(stage: Stage, turn: str = "") -> RunExit:
    """Retry the failed run of *stage*."""
    opening = RootOpening(reopened=reopening(list(RunReader(stage.store).tree("r")), stage.clock.now(), turn))
    stage.shell = stage._shell(None)
    return stage.clock.run(stage.shell.resume("r", stage.plan, opening))


def test_a_retry_asks_only_for_the_item_that_failed() -> None:
    """The items that had ended keep their results."""
    stage = Stage(review(), cast(b=1))
    assert stage.start().status == "failed"
    assert [one.turn for one in stage.records(TurnFailed)] == ["reader#2"]

    assert retried(stage).status == "completed"

    attempts = [one.turn for one in stage.cast.asked if one.agent.name == "reader"]
    assert sorted({*attempts}) == ["reader#1", "reader#2", "reader#3", "reader#4"]
    assert attempts.count("reader#2") == 2
    assert last_set(stage) == dict.fromkeys(DOCUMENTS, True)


def test_a_retry_asks_again_for_a_list_that_is_too_long() -> None:
    """The turn that gave it is at fault, and is told why."""
    long = Answer(text="files", outputs={"files": list("abcdefg")})
    stage = Stage(review(), Cast({"scout": [long, FILES], "reader": [reads(fails={})]}))
    assert stage.start().status == "failed"
    finished: list[Record] = stage.records(RunFinished)
    assert finished[0].reason == (  # type: ignore[attr-defined]
        "scout#1: 'reader' cannot start, since scout.files has 7 items, at most 4 are allowed"
    )

    assert retried(stage).status == "completed"

    assert [one.turn for one in stage.cast.asked][:2] == ["scout#1", "scout#1"]
    assert "scout.files has 7 items, at most 4 are allowed" in stage.cast.asked[1].prompt
    assert last_set(stage) == dict.fromkeys(DOCUMENTS, True)


def test_an_item_of_the_input_is_not_given_the_whole_list() -> None:
    """Else each of ten thousand items would cost as much as ten thousand; the rest of the input is given."""
    plan = mapped(flow("reader -> writer"), reader=MapPlan(agent="input", field="files", at_most=9))
    stage = Stage(plan)
    assert stage.start(files=["aa", "bb"], depth=3).status == "completed"

    first, second, last = (one.prompt for one in stage.cast.asked)
    assert ("aa" in first, "bb" in first, "- depth: 3" in first) == (True, False, True)
    assert ("aa" in second, "bb" in second) == (False, True)
    assert '["aa", "bb"]' in last


def test_an_item_of_several_says_which_they_are() -> None:
    """In the prompt; a program has them in its variable, and people call them by their place."""
    plan = mapped(review(), reader=MapPlan(agent="scout", field="files", by=3, at_most=2))
    stage = Stage(plan, cast())

    assert stage.start().status == "completed"

    first, last = (asked for asked in stage.cast.asked if asked.agent.name == "reader")
    assert '# Items 1 to 3 of 4\n\n~~~text\n["a","b","c"]\n~~~' in first.prompt
    assert "# Item 4 of 4" in last.prompt
    assert last.env["COTERIE_ITEM"] == '["d"]'
    starts = [one for one in stage.records(TurnStarted) if one.agent == "reader"]
    assert [(one.item, one.item_name) for one in starts] == [((1, 2), "1 to 3"), ((2, 2), "4")]


def test_too_many_of_several_fail_the_turn_that_gave_them() -> None:
    """Or the first ones count."""
    for on_more, status in (("fail", "failed"), ("first", "completed")):
        how = MapPlan(agent="scout", field="files", by=1, at_most=3, on_more=on_more)
        stage = Stage(mapped(review(), reader=how), cast())
        assert stage.start().status == status
    [started] = stage.records(SetStarted)
    assert (started.items, started.found) == (3, 4)


# -- a set, and an item of it, by name ---------------------------------------------------------------------------------


def nested(**reader: Any) -> Plan:
    """A map of a team that maps."""
    team = AgentPlan(name="team", kind="topology", child=review(**reader))
    agents = {"scout": AgentPlan(name="scout", outputs=(Wanted(name="files", type="list"),)), "team": team}
    return mapped(flow("scout -> team", **agents), team=MapPlan(agent="scout", field="files", at_most=4, at_once=1))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("src/a.py", "src/a.py"),
        (" two\nlines ", "two lines"),
        ("x" * 99, "x" * 79 + "…"),
        (3, "3"),
        (True, "true"),
        ({"id": 7, "path": "p"}, "7"),
        ({"name": ["no text"], "path": "p"}, "p"),
        ({"title": "t"}, ""),
        (["a"], ""),
        (None, ""),
        ("the key s3cret", "the key ***"),
    ],
)
def test_an_item_has_a_name(value: Any, name: str) -> None:
    """A text, or the `name`, `id` or `path` of an object: short, on one line, without secrets."""
    item = Item(set="reader@1", k=1, of=1, agent="scout", field="files", value=value)

    assert name_of(item, lambda text: text.replace("s3cret", "***")) == name


def test_the_start_of_an_item_names_it() -> None:
    """Each attempt does; the timeline shows the name."""
    stage = Stage(review(retry=2), cast(b=2))
    stage.start()

    starts = [one for one in stage.records(TurnStarted) if one.agent == "reader"]
    assert {(one.turn, one.item_name) for one in starts} == {
        (f"reader#{n}", name) for n, name in enumerate(DOCUMENTS, 1)
    }
    assert sentence(starts[1]) == "reader#2 started, on item 2 of 4: “b”"


@pytest.mark.parametrize(
    ("plan", "name", "turns"),
    [
        (review(), "reader@1", ("reader#2", "reader#3")),
        (review(), "reader#2", ("reader#2", "reader#3")),
        (nested(), "team@1", ("team#1.1/reader#2", "team#1.1/reader#3")),
        (nested(), "team#1/reader@1", ("team#1.1/reader#2", "team#1.1/reader#3")),
        (nested(), "team#1.1/reader@1", ("team#1.1/reader#2", "team#1.1/reader#3")),
    ],
)
def test_a_set_is_retried_by_its_name(plan: Plan, name: str, turns: tuple[str, ...]) -> None:
    """Its failed items are, with what they cancelled; also in a team that another set maps."""
    stage = Stage(plan, cast(b=1))
    assert stage.start().status == "failed"
    record = reopening(list(RunReader(stage.store).tree("r")), stage.clock.now(), name)

    assert record.turns == turns


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("reader@2", "it has no turn 'reader@2'; did you mean 'reader@1'"),
        ("scout@1", "it has no turn 'scout@1'"),
        ("reader#1", "reader#1 did not fail"),
    ],
)
def test_what_did_not_fail_a_run_is_not_retried(name: str, why: str) -> None:
    """Nor is a set that there is not."""
    stage = Stage(review(), cast(b=1))
    stage.start()
    with pytest.raises(RetryRefused, match=re.escape(why)):
        reopening(list(RunReader(stage.store).tree("r")), stage.clock.now(), name)


def asked_at(plan: Plan, seconds: float, *words: RunMessage) -> tuple[Stage, list[str]]:
    """A run of *plan* that receives *words* after so many seconds, and why each is refused; empty: it is not."""
    stage, said = Stage(plan, cast()), list[str]()
    shell = stage._shell(None)

    def speak() -> None:
        for word in words:
            verdict = take(shell, word, stage.clock.now(), Sender("operator"))[1]
            said.append(verdict.detail if verdict.status == "refused" else "")

    async def play() -> RunExit:
        asyncio.get_running_loop().call_later(seconds, lambda: shell.post(speak))
        return await shell.start("r", plan, {"prompt": "Do it"})

    assert stage.clock.run(play()).status == "completed"
    return stage, said


@pytest.mark.parametrize(
    ("turn", "cut"),
    [("reader@1", ["reader#1", "reader#2"]), ("reader#2", ["reader#2"]), ("", ["reader#1", "reader#2"])],
)
def test_a_set_is_interrupted_by_its_name(turn: str, cut: list[str]) -> None:
    """Its running items are; each is tried again, and the set has all results."""
    stage, said = asked_at(review(), 1.5, RunMessage(id="m", kind="interrupt", turn=turn))

    assert said == [""]
    assert [one.turn for one in stage.records(AttemptInterrupted)] == cut
    assert last_set(stage) == dict.fromkeys(DOCUMENTS, True)


def test_a_mapped_team_is_interrupted_by_the_name_of_its_set() -> None:
    """What runs in its items is."""
    stage, said = asked_at(nested(), 2.5, RunMessage(id="m", kind="interrupt", turn="team@1"))

    assert said == [""]
    cut = stage.records(AttemptInterrupted, run="r/team#1.1")
    assert [one.turn for one in cut] == ["reader#1", "reader#2"]


def test_guidance_for_a_set_names_its_running_items() -> None:
    """It is for one turn: with several at work the answer lists them, with one it is taken."""
    word = RunMessage(id="m", kind="guide", turn="reader@1", text="Mind the tests")
    _, said = asked_at(review(), 1.5, word)
    assert said == ["several turns are running; say which turn the guidance is for: reader#1, reader#2"]

    last = mapped(review(), reader=MapPlan(agent="scout", field="files", at_most=4, at_once=1))
    stage, said = asked_at(last, 1.5, word)
    assert said == [""]
    assert [one.turn for one in stage.records(OperatorSaid)] == ["reader#1"]


def test_a_set_that_has_no_turn_at_work_is_not_interrupted() -> None:
    """As for a turn that is not running."""
    _, said = asked_at(review(), 0.5, RunMessage(id="m", kind="interrupt", turn="reader@1"))

    assert said == ["turn 'reader@1' is not running"]


def lines(node: RunNode) -> list[str]:
    """The lines of the tree below *node*."""
    below = [f"  {line}" for child in node.children for line in lines(child)]
    return [" ".join(filter(None, (node.label, node.state, node.detail))), *below]


def test_a_set_is_one_line_of_the_tree() -> None:
    """It says how far it is; of its items only those have a line that failed, three of them, or need a person."""
    items = list("abcdefgh")
    plan = mapped(review(on_fail="continue"), reader=MapPlan(agent="scout", field="files", at_most=8, at_once=2))
    scout = Answer(text="files", outputs={"files": items})
    stage = Stage(plan, Cast({"scout": [scout], "reader": [reads(fails=dict.fromkeys("bcdef", 9))]}))
    stage.start()
    whole = fold(stage.records())

    assert [line for line in lines(tree(whole, {}, 99.0, plan)) if "reader" in line] == [
        "  reader@1 finished 3 finished, 5 failed of 8",
        *(f"    reader#{n}  {items[n - 1]} failed exit status 1" for n in (2, 3, 4)),
    ]
    half = lines(tree(fold(begun(stage.records(), "reader#4")), {}, 99.0, plan))
    assert half[2] == "  reader@1 running 1 finished, 1 failed, 2 running of 8"
    assert len([line for line in half if "reader" in line]) == 2


def test_an_item_that_needs_a_person_has_a_line_of_its_own() -> None:
    """Also if a turn of its team does; the others at work have none."""
    boss = AgentPlan(name="boss", kind="human")
    team = AgentPlan(name="team", kind="topology", child=flow("boss -> writer", boss=boss))
    scout = AgentPlan(name="scout", outputs=(Wanted(name="files", type="list"),))
    of = MapPlan(agent="scout", field="files", at_most=4, at_once=4)
    asks = mapped(flow("scout -> boss", boss=boss, scout=scout), boss=of)
    below = mapped(flow("scout -> team", team=team, scout=scout), team=of)

    def shown(plan: Plan, last: str, *nested: str) -> list[str]:
        stage = Stage(plan, Cast({"scout": [FILES]}), park=True)
        stage.start()
        children = {run: fold(begun(stage.records(run=run), "boss#1")) for run in nested}
        return lines(tree(fold(begun(stage.records(), last)), children, 99.0, plan))[2:]

    assert shown(asks, "boss#2") == [
        "  boss@1 running 2 waiting of 4",
        "    boss#1  a waiting answer with: coterie control respond r 'boss#1' TEXT",
        "    boss#2  b waiting answer with: coterie control respond r 'boss#2' TEXT",
    ]
    assert shown(below, "team#3", "r/team#2.1")[:2] == ["  team@1 running 3 running of 4", "    team#2  b running"]


def begun(records: list[Any], turn: str) -> list[Any]:
    """The *records* up to the start of *turn*."""
    last = next(n for n, one in enumerate(records, 1) if isinstance(one, TurnStarted) and one.turn == turn)
    return records[:last]


def random_stage(seed: int) -> Stage:
    """A stage for random flow *seed*."""

    def does(request: Any) -> Any:
        said = answer_of(seed, request.turn)
        return Answer(text=request.turn, outputs=said) if isinstance(said, dict) else BROKEN

    plan = mapped_plan(seed)
    return Stage(plan, Cast({name: [does] for name in plan.agents}), limits=Limits(max_parallel=1))


def play_killed(seed: int) -> int:
    """Kill flow *seed* after every append; returns how many sets it has."""
    whole, given = random_stage(seed), random_mapped_flow(seed)[2]
    whole.start(**given)
    records = whole.records()
    for kept in range(2, len(records)):
        again = random_stage(seed)
        again.clock.advance(1000.0)
        again.store.fill("r", records[:kept])
        again.resume(Limits(max_parallel=1))
        found = again.records()
        wanted = uncrashed("r", again.plan, kind_of, found)
        assert ended(found) == ended(wanted), (seed, kept)
        assert [summary(one) for one in found if type(one) in OF_SETS] == [
            summary(one) for one in wanted if type(one) in OF_SETS
        ], (seed, kept)
        done = [one.turn for one in found if isinstance(one, TurnFinished)]
        assert len(done) == len({*done}), (seed, kept)
        assert not {one.turn for one in records[:kept] if isinstance(one, TurnFinished)} & {
            one.turn for one in again.cast.asked
        }, (seed, kept)
    return len(whole.records(SetStarted))


OF_SETS = (SetStarted, SetEnded, RunFinished)


def summary(record: Record) -> Record:
    """*record* without its place and time in the journal."""
    return replace(record, seq=0, at=0.0, cause=None)


def playable(first: int, number: int) -> list[int]:
    """So many random flows whose runs begin: the input's list is not too long."""
    found = []
    for seed in itertools.count(first):
        plan, _, given = random_mapped_flow(seed)
        own = [one for one in plan.maps.values() if one.agent == "input"]
        if all(len(given["l"]) <= one.at_most or one.on_more == "first" for one in own):
            found.append(seed)
        if len(found) == number:
            return found
    raise AssertionError


def test_random_flows_killed_after_any_append_end_as_if_they_had_not_been() -> None:
    """The journal is that of an uncrashed run with the same replies; no item with a result runs again."""
    assert sum(map(play_killed, playable(0, 6))) >= 5


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_fifty_random_flows_killed_after_any_append_end_as_if_they_had_not_been(part: int) -> None:
    """As above, for 50 flows."""
    assert sum(map(play_killed, playable(1000 * (part + 1), 5))) >= 1
