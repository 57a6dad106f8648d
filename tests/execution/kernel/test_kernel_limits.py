"""What counts against the limits of an owner and the budget of a slot, and where exactly they stop a run."""

from typing import Any

from nests import nested, used
from played import played
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.execution.kinds import kind_of
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import AgentFailed, Conversation, Question, Together
from coterie.history.journal.records import AttemptFailed, TurnCancelled, TurnFinished, TurnStarted, Usage
from coterie.team.planning.pattern import SlotPlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan

PAID = Answer(text="x", usage=Usage(cost=1.0))
BROKEN = Failure(kind="exit", reason="no", usage=Usage(cost=0.5))


def generated(conversation: Any, agents: dict[str, AgentPlan], budgets: dict[str, SlotPlan] | None = None) -> Any:
    """A plan with *agents*, and how to make its engine; a team's own plan is a flow."""
    plan = Plan(name="generated", agents=agents)

    def kinds(one: Plan) -> Any:
        if one.name == "generated":
            return played(lambda one: (GeneratorEngine(conversation, one.agents, budgets), one.agents))(one)
        return kind_of(one)

    return plan, kinds


# -- what counts ------------------------------------------------------------------------------------------------------


def test_what_a_called_off_team_spent_counts_once_and_after_a_resume() -> None:
    """The parent's record says what the runs of the team had used, and nothing else counts that again."""
    leaf = flow("paid -> slow -> end")
    plan = flow(
        "go -> [team, wait]",
        "wait -> bad -> b",
        team=nested(3, leaf),
        bad=AgentPlan(name="bad"),
    )
    stage = Stage(plan, Cast({"paid": [PAID], "bad": [BROKEN]}))
    ended = stage.start()

    spent = Usage(turns=5, cost=1.5)  # go, wait, bad, paid, slow
    assert ended.usage == spent
    [called_off] = stage.records(TurnCancelled)
    assert called_off.usage == Usage(turns=2, cost=1.0)
    assert used(stage.records()) + Usage(turns=3) == spent
    inner = stage.records(TurnCancelled, run="r/team#1.1/team#1.1")
    assert [record.usage for record in inner] == [called_off.usage]


def test_what_a_late_team_spent_counts_against_the_next_owners_limit() -> None:
    """Its journal is closed; what its parent says of it is enough."""
    leaf = flow("paid -> slow -> end")
    team = nested(2, leaf, timeout=1.5, on_fail="continue")
    stage = Stage(flow("team -> b -> c", team=team), Cast({"paid": [PAID]}))
    assert stage.start(Limits(max_turns=2)).usage == Usage(turns=2, cost=1.0)

    assert [record.usage for record in stage.records(AttemptFailed)] == [Usage(turns=2, cost=1.0)]
    ended = stage.resume(Limits(max_turns=-1, max_cost=1.0))
    assert (ended.reason, ended.usage) == ("max_cost", Usage(turns=2, cost=1.0))
    assert stage.resume(Limits(max_turns=-1, max_cost=-1)).usage == Usage(turns=4, cost=1.0)


def test_what_a_late_team_spent_never_counts_twice() -> None:
    """Not even while its runs end and its parent, which has counted it, goes on."""
    team = nested(2, flow("paid -> slow -> end"), timeout=1.5, on_fail="continue")
    stage = Stage(flow("team -> b", team=team), Cast({"paid": [PAID]}))
    shell, seen = stage._shell(None), list[float]()
    shell.watch(lambda run, record: seen.append(shell.tree.ledger.spent().cost))

    assert stage.clock.run(shell.start("r", stage.plan, {"prompt": "go"})).status == "completed"
    assert max(seen) == seen[-1] == 1.0


def test_a_human_turn_counts_as_a_turn() -> None:
    """`--max-turns` bounds questions to people too."""
    human = AgentPlan(name="h", kind="human", backend="human")
    stage = Stage(flow("h -> a", h=human))
    ended = stage.start(Limits(max_turns=1))

    assert (ended.status, ended.reason, ended.usage.turns) == ("stopped", "max_turns", 1)
    assert [record.turn for record in stage.records(TurnFinished)] == ["h#1"]


def test_what_a_fallback_costs_is_charged_to_the_slot_it_answers_for() -> None:
    """The slot's budget is spent by the fallback's turn, so nobody is asked for it again."""

    def conversation(given: dict[str, Any]) -> Conversation:
        yield Question("a", "1")
        try:
            yield Question("a", "2")
        except AgentFailed as failed:
            return failed.reason
        return "asked again"

    agents = {"a": AgentPlan(name="a", on_fail="fallback", fallback="b"), "b": AgentPlan(name="b")}
    plan, kinds = generated(conversation, agents, {"a": SlotPlan(name="a", cost=1.5)})
    stage = Stage(plan, Cast({"a": [BROKEN], "b": [PAID]}), make_kind=kinds)

    assert stage.start().result == "a may cost $1.5, and has cost $1.5000"
    assert [record.turn for record in stage.records(TurnStarted)] == ["a#1", "a.b#1"]


def test_what_a_called_off_team_cost_is_charged_to_its_slot() -> None:
    """It was spent for the slot, whether its answer came or not."""

    def conversation(given: dict[str, Any]) -> Conversation:
        yield Together(Question("quick", "?"), Question("team", "?"), until=lambda got: got[0] is not None)
        yield Question("quick", "?")
        try:
            yield Question("team", "?")
        except AgentFailed as failed:
            return failed.reason
        return "asked again"

    agents = {"quick": AgentPlan(name="quick"), "team": nested(1, flow("paid -> slow"))}
    plan, kinds = generated(conversation, agents, {"team": SlotPlan(name="team", cost=1.0)})
    cast = Cast({"paid": [PAID]})
    real = cast.start

    async def start(request: Any, on_event: Any) -> Any:
        part = await real(request, on_event)
        part._seconds = 1.5 if request.agent.name == "quick" else 1.0
        return part

    cast.start = start  # type: ignore[method-assign]
    stage = Stage(plan, cast, make_kind=kinds)
    assert stage.start().result == "team may cost $1, and has cost $1.0000"


# -- where it stops ---------------------------------------------------------------------------------------------------


def test_max_cost_stops_at_exactly_the_limit() -> None:
    """What is spent to the last cent is spent."""
    stage = Stage(flow("a -> b -> c"), Cast({name: [PAID] for name in "abc"}))
    ended = stage.start(Limits(max_cost=2.0))

    assert (ended.status, ended.reason, ended.usage.cost) == ("stopped", "max_cost", 2.0)
    assert stage.resume(Limits(max_cost=2.0)).usage.cost == 2.0
    assert stage.resume(Limits(max_cost=2.01)).status == "completed"


def test_the_budget_of_a_slot_stops_at_exactly_the_limit() -> None:
    """Two turns of one dollar spend two dollars."""

    def conversation(given: dict[str, Any]) -> Conversation:
        for n in range(3):
            try:
                yield Question("a", str(n))
            except AgentFailed as failed:
                return failed.reason
        return "asked three times"

    plan, kinds = generated(conversation, {"a": AgentPlan(name="a")}, {"a": SlotPlan(name="a", cost=2.0)})
    stage = Stage(plan, Cast({"a": [PAID]}), make_kind=kinds)

    assert stage.start().result == "a may cost $2, and has cost $2.0000"
    assert len(stage.records(TurnStarted)) == 2


def test_a_retry_is_allowed_once_max_turns_is_reached() -> None:
    """A further attempt is no new turn; the next turn is."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", retry=1)), Cast({"a": [BROKEN, PAID]}))
    ended = stage.start(Limits(max_turns=1))

    assert (ended.status, ended.reason) == ("stopped", "max_turns")
    assert [(record.turn, record.attempt) for record in stage.records(TurnStarted)] == [("a#1", 1), ("a#1", 2)]
    assert [record.turn for record in stage.records(TurnFinished)] == ["a#1"]


def test_a_turn_whose_prompt_is_being_read_counts_against_the_limit() -> None:
    """Two that read files are not begun where the owner allows one."""
    agents = {name: AgentPlan(name=name, reads=("notes.md",)) for name in "ab"}
    stage = Stage(flow("[a, b] -> z", **agents))
    stage.start(Limits(max_turns=1))

    assert [one.turn for one in stage.records(TurnStarted)] == ["a#1"]
