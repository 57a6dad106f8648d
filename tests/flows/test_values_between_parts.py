"""Values between the parts of a program: functions, flows in flows, slots of patterns, and a run that is carried on."""

import asyncio
import dataclasses
import datetime
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import value_agents as values
from value_agents import Kind

import coterie
from coterie import agent, flow
from coterie.errors import TopologyError, UsageError
from coterie.execution.runs.repository import Runs
from coterie.history.engines.commands import Ask, Finish
from coterie.history.engines.patterns.engine import PatternEngine
from coterie.history.engines.patterns.program import ProgramEngine
from coterie.history.engines.versions import PATTERN
from coterie.history.journal.records import GivenValues, RunStarted, TurnFinished
from coterie.patterns import chain_of_command, ensemble
from coterie.team.planning.pattern import PatternPlan
from coterie.team.topology.typed.fits import beyond_json, misfit
from coterie.testing import rehearse

DAY = datetime.date(2026, 1, 1)


def played(team: Any, given: Any = "it crashes") -> coterie.Outcome[Any]:
    return asyncio.run(coterie.run(team, given))


def after(*functions: Callable[..., Any]) -> Any:
    nodes = [agent(one) for one in functions]
    return flow("f", nodes, [one >> other for one, other in itertools.pairwise(nodes)], result=nodes[-1])


def beyond(function: Callable[..., Any], team: Any) -> Any:
    """A function, and behind it a team that reads what it gives."""
    first, second = agent(function), agent("team", team)
    return flow("f", [first, second], [first >> second], result=second)


def team_and_reader(team: Any, function: Callable[..., Any]) -> Any:
    """A team, and behind it a function that reads what the team gives."""
    first, second = agent("team", team), agent(function)
    return flow("f", [first, second], [first >> second], result=second)


def nested(function: Callable[..., Any], depth: int = 1, question: str = "") -> Any:
    """A flow whose second node is a flow with *function*, or that with one more in between."""
    inner: Any = after(function)
    for n in range(depth):
        team = agent(f"team{n}", inner, prompt=question)
        first = agent(values.classify)
        inner = flow(
            f"f{n}", [first, team] if n == depth - 1 else [team], [first >> team] if n == depth - 1 else [], result=team
        )
    return inner


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_function_in_a_nested_flow_gets_what_one_in_the_flow_gets(depth: int) -> None:
    """The prompt, the typed answers before the node, and the inputs by name, at any depth."""
    assert played(nested(values.sees_prompt, depth)).result == "it crashes"
    assert played(nested(values.sees_kind, depth)).result == Kind("tech", None)
    assert played(nested(values.sees_topic, depth), {"topic": "tea"}).result == "tea"


def test_the_prompt_of_a_nested_flow_is_the_question_of_its_node() -> None:
    """What its node is asked comes before the task, and the results before it are values."""
    outcome = played(nested(values.sees_task, question="Diagnose it."))

    assert outcome.result == ["Diagnose it.\n\nit crashes"] * 3


def test_nested_values_are_recorded_and_only_where_functions_read_them() -> None:
    """A resumed child run has them from its journal; a child run without functions records none."""
    run = played(nested(values.sees_topic), {"topic": "tea"}).run
    first = next(iter(Runs(Path(".coterie")).read(f"{run}/team0#1.1")))
    assert isinstance(first, RunStarted)
    assert first.values is not None
    assert first.values.input["topic"] == "tea"
    assert first.values.answers[0]["outputs"] == {"kind": "tech", "weight": None}

    program = agent("echo", command=["cat"])
    team = agent("team0", flow("inner", [program]))
    run = played(flow("outer", [team])).run
    assert next(iter(Runs(Path(".coterie")).read(f"{run}/team0#1.1"))).values is None  # type: ignore[union-attr]


def test_a_typed_flow_composes_of_typed_flows() -> None:
    """Its node gives its type: to `result`, to functions, to conditions, and to the check of types."""
    inner = after(values.classify)
    desk = agent("desk", inner)
    assert played(flow("outer", [desk], result=desk)).result == Kind("tech", None)
    reader = agent(values.sees_desk)
    assert (
        played(flow("outer", [desk, reader], [(desk >> reader).when(desk.kind == "tech")], result=reader)).result
        == "tech"
    )
    number = agent(values.wants_desk_number)
    with pytest.raises(UsageError, match="reads 'desk' as int, and desk gives it: it is Kind, never int"):
        flow("outer", [desk, number], [desk >> number])


def test_a_function_in_a_slot_gets_the_question_of_the_pattern() -> None:
    """Its prompt is what the pattern asks it, however the run is given its task."""
    team = chain_of_command(
        {"lead": agent(values.leads), "hand": agent(values.helps)}, authority_levels=["lead", "hand"]
    )

    plans = [played(team, given).result.outputs["chain"].strategy["subtasks"] for given in ({"task": "T"}, "T")]
    assert plans == [["one", "two"]] * 2


@pytest.mark.parametrize("in_slot", [False, True])
def test_a_pattern_at_a_node_asks_its_functions_what_the_node_is_asked(in_slot: bool) -> None:
    """The results before the node are values for functions, and for all others a text before the question."""
    panel: Any = ensemble(agent(values.sees_prompt), agent("echo", command=["cat"]))
    place, question = "team#1.1", "Diagnose it.\n\nit crashes"
    if in_slot:
        panel = ensemble(agent("desk", panel, prompt="Be brief."), agent("other", command=["cat"]))
        place, question = f"{place}/ensemble_0#1.1", f"Be brief.\n\n{question}"
    first, team = agent(values.classify), agent("team", panel, prompt="Diagnose it.")
    run = played(flow("f", [first, team], [first >> team])).run
    told = {
        one.turn: one.text for one in Runs(Path(".coterie")).read(f"{run}/{place}") if isinstance(one, TurnFinished)
    }

    assert told["ensemble_0#1"] == question
    assert told["ensemble_1#1"].rstrip().endswith(question)
    assert told["ensemble_1#1"].count("# Result of classify (classify#1)") == 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (values.sees_task, '{"result": [' + ", ".join([r'"Diagnose it.\n\nit crashes"'] * 3) + "]}"),
        (values.sees_kind, '{"kind": "tech", "weight": null}'),
        (values.sees_topic, "tea"),
    ],
)
def test_functions_in_a_loop_at_a_node_get_the_values_of_the_runs_above(
    function: Callable[..., Any], told: str, tmp_path: Path
) -> None:
    """As in a flow at that node; its models are asked in the text that a loop makes of them."""
    (tmp_path / "topology.toml").write_text(
        'completion = "done"\n'
        '[[role]]\nid = "worker"\nemits = ["done"]\nprompt = "Work."\ntopology = "inner.at"\n'
        '[handoff]\n"loop.start" = ["worker"]\n'
    )
    (tmp_path / "autoloops.toml").write_text("review.enabled = false\n")
    (tmp_path / "inner.at").write_text(coterie.to_at(after(function)))
    first, loop = agent(values.classify), agent("loop", tmp_path, prompt="Diagnose it.")
    outcome = played(flow("f", [first, loop], [first >> loop]), {"prompt": "it crashes", "topic": "tea"})

    assert outcome.result.text == told


def test_a_team_in_a_slot_is_not_told_how_its_agents_answer() -> None:
    """Each of them is told how to give its own outputs, and the team gives what they gave."""
    inner = flow("inner", [one := agent("one", command=["cat"])], [], result=one)
    panel = ensemble(agent("desk", inner, outputs={"kind": str}), agent("other", command=["cat"]))
    run = played(panel).run
    (begun,) = [one for one in Runs(Path(".coterie")).read(f"{run}/ensemble_0#1.1") if isinstance(one, RunStarted)]

    assert begun.input["prompt"] == "it crashes"


@pytest.mark.parametrize(("version", "asked"), [(3, "# Task\n\nT\n\n# Result of x"), (PATTERN, "T")])
def test_a_pattern_that_an_earlier_version_began_asks_on_as_it_did(version: int, asked: str) -> None:
    """Its journal has the questions of then, with the whole prompt of its node; none of them may change."""
    plan = coterie.plan(ensemble(agent(values.sees_prompt), agent("echo", command=["cat"])))
    assert isinstance(plan.coordination, PatternPlan)
    began = RunStarted(
        run="r/team#1.1",
        engine="pattern",
        engine_version=version,
        topology="p",
        input={"prompt": "# Task\n\nT\n\n# Result of x"},
        values=GivenValues(prompt="T"),
    )
    commands = PatternEngine(plan.coordination, plan.agents).step(began)

    assert {command.prompt for command in commands if isinstance(command, Ask)} == {asked}


@pytest.mark.parametrize(
    ("team", "given", "result"),
    [
        (after(values.sees_weight), {"weight": None}, None),
        (after(values.sees_weight), {}, 7),
        (after(values.classify, values.sees_weight), {}, None),
        (after(values.maybe, values.sees_maybe), {}, None),
        (nested(values.sees_weight), {}, None),
        (nested(values.sees_weight), {"weight": None}, None),
        (after(values.nothing, values.sees_nothing), {}, None),
        (after(values.nothing, values.sees_no_number), {}, None),
        (after(values.nothing, values.sees_no_kind), {}, True),
        (after(values.empty, values.sees_empty), {}, ""),
        (team_and_reader(after(values.nothing), values.sees_no_team), {}, None),
        (team_and_reader(after(values.empty), values.sees_no_team), {}, ""),
        (beyond(values.nothing, after(values.sees_nothing)), {}, None),
        (beyond(values.nothing, values.programs_nothing), {}, True),
    ],
)
def test_null_is_a_value_and_absent_is_absent(team: Any, given: Any, result: Any) -> None:
    """A parameter with a default gets the null that is given, from inputs, answers and outer runs."""
    assert played(team, given).result == result


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (values.detailed, "returned Detailed, which its readers would get as Kind: declare the type Detailed"),
        (values.holds, "returned Further at .held, which its readers would get as Base: declare the type Further"),
        (values.logs_in, "returned is not JSON: a secret at .password, which no journal keeps"),
        (values.hides, "returned 5 at .number, which its readers would get as 0"),
        (values.miscounted, "returned does not have its type: ValidationError: Expected `str`, got `int`"),
        (values.keyed, "returned the key 1, which its readers would get as a text: declare the type of the keys"),
        (values.raw, "returned bytes, which its readers would get as str: declare the type bytes"),
        (values.dated, "returned date at ['at'], which its readers would get as str: declare the type date"),
        (
            values.several,
            "returned FrozenDetailed at {…}, which its readers would get as Frozen: declare the type FrozenDetailed",
        ),
        (values.paired, "returned tuple at ['pairs'][0], which its readers would get as list: declare the type tuple"),
        (values.wrapped, "returned dict, which its readers would get as int: declare the type dict"),
        (values.unmeasured, "returned is not JSON: inf at .weight, which JSON cannot hold"),
    ],
)
def test_what_would_arrive_as_another_value_is_refused(function: Callable[..., Any], why: str) -> None:
    """Subclasses and secrets fail the turn, with the place, instead of arriving changed."""
    outcome = played(after(function))

    assert (outcome.status, why in outcome.reason) == ("failed", True), outcome.reason
    assert played(after(values.halved)).status == "completed"  # three is three


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ((1, 2), "tuple, which its readers would get as list: declare the type tuple"),
        ({"at": [()]}, "tuple at ['at'][0], which its readers would get as list: declare the type tuple"),
        ({1: "a"}, "the key 1, which its readers would get as a text: declare the type of the keys"),
        (values.Kind("tech"), "Kind, which its readers would get as dict: declare the type Kind"),
        ({b"raw"}, "set, which its readers would get as list: declare the type set"),
        ([b"raw"], "bytes at [0], which its readers would get as str: declare the type bytes"),
    ],
)
def test_a_value_without_a_declared_type_arrives_as_it_is_or_not_at_all(value: Any, why: str) -> None:
    """From a function, from a program, and to a function that a program asks."""
    values.GIVEN[:] = [value]
    for team, said in (
        (after(values.gives), f"gives() returned {why}"),
        (values.gives_as_program, f"gives_as_program returned {why}"),
        (values.asks_for_given, f"the value 'value' for untyped is {why}"),
    ):
        outcome = played(team)
        assert (outcome.status, said in outcome.reason) == ("failed", True), outcome.reason

    for kept in ({}, [], None, {"at": [None]}, 1.5):
        values.GIVEN[:] = [kept]
        assert played(after(values.gives, values.sees_given)).result is True
        assert played(values.gives_as_program).result == kept


def test_a_program_that_an_earlier_version_began_gives_what_it_gave() -> None:
    """Its journal has the end that its values led to, which no later rule may change."""
    values.GIVEN[:] = [(1, 2)]
    plan = coterie.plan(values.gives_as_program)
    assert isinstance(plan.coordination, PatternPlan)
    for version, ending in ((1, "completed"), (ProgramEngine.version, "failed")):
        engine = ProgramEngine(plan.coordination, plan.agents)
        (ended,) = engine.step(RunStarted(run="r", engine="generator", engine_version=version))
        assert isinstance(ended, Finish)
        assert ended.outcome == ending


def test_a_declared_sequence_may_be_a_tuple() -> None:
    """Its readers get a sequence of the same items."""
    assert played(after(values.sequenced)).result == ["a", "b"]


def desk(*functions: Callable[..., Any]) -> Any:
    return flow("desk", [agent(one) for one in functions])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ((1, 2), "which its readers would get as list: declare the type tuple: def untyped(value: tuple[int, ...])"),
        ({"at": [DAY]}, "declare the type date: def untyped(value: dict[str, list[date]])"),
        ({1: "a"}, "declare the type of the keys: def untyped(value: dict[int, str])"),
        (values.Kind("tech"), "which its readers would get as dict: declare the type Kind: def untyped(value: Kind)"),
        ({b"raw"}, "declare the type set: def untyped(value: set[bytes])"),
    ],
)
def test_an_input_without_a_declared_type_arrives_as_it_is_or_not_at_all(value: Any, why: str) -> None:
    """Of a run, of a fork, of the team at a node, and of one that a program asks, with a line to type."""
    given = {"value": value}
    inner = desk(values.untyped)
    for team in (inner, flow("outer", [agent("desk", inner)]), desk(values.limited, values.untyped)):
        with pytest.raises(UsageError) as refused:
            played(team, given)
        assert "the input 'value' for untyped() is " in str(refused.value)
        assert str(refused.value).endswith(why)
    with pytest.raises(UsageError, match=r"with_=… of desk: the input 'value' for untyped\(\) is "):
        agent("desk", inner, with_=given)
    run = played(inner, {"value": 1}).run
    with pytest.raises(UsageError, match=r"the input 'value' for untyped\(\) is "):
        asyncio.run(coterie.fork(run, input=given))
    values.INNER[:] = [given]
    assert why in played(values.asks_a_team).reason
    assert [one.status for one in coterie.runs()] == ["failed", "completed"]


def test_an_input_with_a_declared_type_arrives() -> None:
    """Also one of a class whose fields are the values, and one that only prompts show."""
    assert played(desk(values.limited), {"since": DAY}).result.text == f"5 {DAY!r}"
    assert played(desk(values.limited), values.Since(DAY, 3)).result.text == f"3 {DAY!r}"
    shown = flow("shown", [agent("cat", command=["cat"])])
    assert "- at: 2026-01-01" in played(shown, {"at": DAY}).result.text
    with pytest.raises(UsageError, match=r"the input 'value' for untyped\(\) is date"):
        played(desk(values.untyped), values.Valued(DAY))


def test_an_item_of_an_input_arrives_as_it_is_or_not_at_all() -> None:
    """The parameter reads each item of the list."""
    shower = agent(values.shows)
    team = flow("each", [shower], [shower.each("days", at_most=3)])

    with pytest.raises(UsageError, match=r"the input days\[1\] for shows\(\) is date, .*: def shows\(item: date\)"):
        played(team, {"days": [1, DAY]})
    assert played(team, {"days": [1, 2]}).status == "completed"


@pytest.mark.parametrize("given", [{"limt": 3}, {"sinse": "2026-01-01"}, {"limit": 1, "sicne": None}])
def test_a_misspelt_input_is_refused_wherever_it_is_given(given: Any) -> None:
    """A run, a started run, a rehearsal, a team at a node or in a program: none begins with the default instead."""
    team = desk(values.limited)
    wanted = r"the run has no input '(limt|sinse|sicne)'; did you mean '(limit|since)'"
    mixed = flow("mixed", [agent(values.limited), agent("cat", command=["cat"])])

    async def started() -> None:
        await coterie.start(team, given)

    for one in (team, coterie.plan(team), flow("outer", [agent("desk", team)]), mixed):
        with pytest.raises(UsageError, match=wanted):
            played(one, given)
    with pytest.raises(UsageError, match=wanted):
        asyncio.run(started())
    with pytest.raises(UsageError, match=wanted):
        rehearse(team, given)
    with pytest.raises(UsageError, match=f"with_=… of desk: {wanted}"):
        agent("desk", team, with_=given)
    values.INNER[:] = [given]
    assert re.search(wanted, played(values.asks_a_team).reason)


def test_an_input_of_another_name_is_refused_where_a_default_would_count_instead() -> None:
    """Prompts show every value; what nothing reads does no harm if every parameter has its own."""
    mixed = flow("mixed", [agent(values.limited), agent("cat", command=["cat"])])
    assert played(mixed, {"tone": "brief", "limit": 1, "limits": [2]}).status == "completed"
    assert played(desk(values.limited), {"tone": "brief", "limit": 1, "since": None}).status == "completed"
    assert played(after(values.classify, values.sees_no_kind), {"tone": "brief", "nothing": None}).result is True
    with pytest.raises(UsageError, match="the run has no input 'tone'; it has prompt, limit, since"):
        played(desk(values.limited), {"tone": "brief"})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"limit": "abc"},
            r"'limit' for limited\(\) does not have its type: .*Expected `int`, got `str`; pass {.limit",
        ),
        ({"since": "soon"}, r"'since' for limited\(\) does not have its type: .*Invalid RFC3339 encoded date$"),
    ],
)
def test_an_input_of_another_type_is_refused_before_a_turn_is_paid_for(given: Any, why: str) -> None:
    """In a flow, also of a fork."""
    team = flow("mixed", [agent("cat", command=["cat"]), agent(values.limited)])
    with pytest.raises(UsageError, match=why):
        played(team, given)
    run = played(team).run
    with pytest.raises(UsageError, match=why):
        asyncio.run(coterie.fork(run, input={"prompt": "x", **given}))
    assert [one.id for one in coterie.runs()] == [run]


def test_what_comes_after_the_value_of_a_parameter_need_not_have_its_type() -> None:
    """The answer of an agent comes before an input of its name."""
    assert played(after(values.classify, values.sees_kind), {"classify": 5}).result == Kind("tech", None)
    assert played(desk(values.numbered), {"prompt": "a text", "task": 3}).result.text == "3"


def test_a_secret_is_no_input() -> None:
    """A journal would have asterisks in its place: of a run and of the team at a node."""
    login = values.logs_in()
    team = after(values.sees_prompt)
    for given in (login, {"login": login}, {"login": [login.password]}):
        with pytest.raises(UsageError, match=r"a secret.*, which no journal keeps"):
            played(team, given)
        with pytest.raises(UsageError, match=r"a secret.*, which no journal keeps"):
            agent("desk", team, with_={"login": given})


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ((values.counts, values.wants_texts), r"reads 'counts' as list\[str\], and counts gives it: it is int"),
        ((values.lists, values.wants_other_items), r"\[…\] of it is int, never str"),
        ((values.asks, values.wants_its_prompt), "use the parameter asks"),
    ],
)
def test_a_parameter_that_cannot_hold_its_output_is_found_when_the_flow_is_built(functions: Any, why: str) -> None:
    """Types that never fit are told with both of them, and so is a name that means two things."""
    with pytest.raises(UsageError, match=why):
        after(*functions)


@pytest.mark.parametrize(
    ("functions", "why", "result"),
    [
        (
            (values.classify, values.sees_untyped),
            r"sees_untyped\(\) reads 'classify' without a type, so that Kind arrives as JSON: write classify: Kind",
            {"kind": "tech", "weight": None},
        ),
        ((values.dates, values.reads_day), "'at' without a type, so that date arrives as JSON: write at: date", True),
    ],
)
def test_a_parameter_without_a_type_that_gets_json_is_warned_of(functions: Any, why: str, result: Any) -> None:
    """Where its giver declares a type that JSON does not have; not where it gives the same as JSON."""
    with pytest.warns(UserWarning, match=why):
        team = after(*functions)

    assert played(team).result == result


@pytest.mark.parametrize(
    ("type_", "lost"),
    [
        (int | None, None),
        (list[dict[str, Any]], None),
        (Literal["a", 1], None),
        (dict[int, str], dict[int, str]),
        (list[tuple[int, str]], tuple[int, str]),
        (Kind | None, Kind),
        (Any, None),
    ],
)
def test_types_whose_values_are_others_as_json(type_: Any, lost: Any) -> None:
    """The first of them, in any place."""
    assert beyond_json(type_) == lost


def test_a_condition_that_can_never_hold_is_found_when_the_flow_is_built() -> None:
    """A number is never a word; a number in quotes is still that number."""
    one, other = agent(values.counts), agent(values.sees_prompt)
    with pytest.raises(TopologyError, match=r"'many' is not a value of counts\.result"):
        flow("f", [one, other], [(one >> other).when(one.result == "many")])
    for value in (3, "3", 2.5, "-1e3"):
        flow("f", [one, other], [(one >> other).when(one.result == value)])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            values.Detailed("tech"),
            "the value 'classify' for sees_kind is Detailed, which its readers would get as Kind",
        ),
        ([values.Kind("tech")], "the value 'classify' for sees_kind does not have its type: ValidationError: Expected"),
    ],
)
def test_a_question_of_a_program_gives_its_value_or_none(given: Any, why: str) -> None:
    """A value that its function would get as another one is refused where the program asks."""
    values.GIVEN[:] = [given]
    outcome = played(values.asks_with_values)

    assert (outcome.status, why in outcome.reason) == ("failed", True), outcome.reason


@dataclasses.dataclass
class Tree:
    leaves: "list[Tree]"


@dataclasses.dataclass
class OtherTree:
    leaves: "list[OtherTree]"
    name: str = ""


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        (int, float, True),
        (float, int, False),
        (int | None, int, True),
        (None, int, False),
        (str, Kind, False),
        (Kind, dict[str, Any], True),
        (dict[str, int], Kind, True),
        (Kind, Tree, False),
        (Tree, OtherTree, True),
        (OtherTree, Tree, True),
        (list[int], set[int], True),
        (list[int], tuple[str, ...], False),
        (Any, Kind, True),
    ],
)
def test_types_fit_where_some_value_may(given: Any, wanted: Any, fits: bool) -> None:
    """Only what JSON can never hold is refused; types that contain themselves come to an end."""
    assert (misfit(given, wanted) == "") is fits, misfit(given, wanted)


def test_a_team_is_proved_in_python() -> None:
    """`check` has the report of `topology check`, of a team that was built and of a file."""
    report = coterie.check(after(values.counts, values.sees_prompt))

    assert report.worst is not None
    assert report.worst.turns == 2


def test_a_node_gives_its_team_values_by_name() -> None:
    """They are typed inputs of the team below; what a question gives, and the prompt, come before them."""
    given = {"topic": "tea", "classify": Kind("tech", 2)}
    for function, expected in ((values.sees_topic, "tea"), (values.sees_kind, Kind("tech", 2))):
        desk = agent("desk", after(function), with_=given)
        assert played(flow("outer", [desk], result=desk), {"topic": "not this one"}).result == expected

    with pytest.raises(
        TopologyError, match="'with' of agent 'desk' must be a block of values by name, without 'prompt'"
    ):
        coterie.plan(flow("outer", [agent("desk", after(values.sees_topic), with_={"prompt": "x"})]))


@pytest.mark.parametrize(
    ("does", "given", "says"),
    [
        (values.sees_topic, {"topic": "tea"}, "a function has defaults for its parameters"),
        (None, {"topic": "tea"}, "desk is none"),
        (after(values.sees_topic), ["tea"], "is a mapping of names to values, not"),
        (after(values.sees_topic), {1: "tea"}, "is a mapping of names to values, not"),
        (after(values.sees_topic), {"topic": object()}, "with_=… of desk: "),
    ],
)
def test_values_of_a_node_that_mean_nothing_are_refused(does: Any, given: Any, says: str) -> None:
    """Only a team has an input, whose values have names and are JSON."""
    with pytest.raises(UsageError, match=says):
        agent("desk", does, with_=given) if does is not None else agent("desk", model="opus", with_=given)


def test_values_of_a_node_in_a_file_reach_its_team(tmp_path: Path) -> None:
    """The block `with` means the same as `with_`, and an agent that is no team has no use for one."""
    inner = tmp_path / "inner.at"
    inner.write_text(coterie.to_at(after(values.sees_topic)))
    typed = flow("outer", [agent("desk", inner, with_={"topic": "tea"})])
    written = tmp_path / "outer.at"
    written.write_text(coterie.to_at(typed))
    assert coterie.plan(coterie.load(written)).agents["desk"].given == {"topic": "tea"}
    assert played(coterie.load(written)).result.text == "tea"

    written.write_text(
        written.read_text()
        .replace('topology: "inner.at"', "command: [cat]")
        .replace(f'topology: "{inner}"', "command: [cat]")
    )
    with pytest.raises(TopologyError, match="agent 'desk' is no team, which 'with' is for"):
        coterie.plan(coterie.load(written))
