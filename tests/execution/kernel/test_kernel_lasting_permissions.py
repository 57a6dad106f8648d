"""Permissions that last: always in this run, always for the project, and what the agent hears with a denial."""

import asyncio

from bundles import bundle
from nests import nested
from stage import Cast, Part, Stage, flow

from coterie.agents.backends.base import Answer, OnEvent, Permission, Request, Result
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage, Verdict, answer, permission
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal import records as r
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, Limits, Plan

RULE = "Bash(make test)"


class Asker(Cast):
    """Agents that ask for one permission, with a rule; a person says the next of *words* five seconds after each.

    Attributes:
        heard: What attempts were told: the turn, whether it is allowed, and the message.
    """

    def __init__(self, *words: RunMessage, source: str = "operator", rule: str = RULE) -> None:
        super().__init__({})
        self._words, self._sender, self._rule = list(words), Sender(source), rule
        self.heard: list[tuple[str, bool, str]] = []
        self.verdicts: list[Verdict] = []
        self.stage: Stage

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        self.asked.append(request)
        if request.agent.name == "end":
            return Part(self, Answer(), 0)
        on_event(Permission(id="toolu_1", tool="Bash", detail="make test", rule=self._rule))
        asyncio.get_running_loop().call_later(5.0, self.stage.shell.post, self.say_next)
        return Asked(self, request)

    def say_next(self) -> None:
        open_now = any(live.core.attention or live.held for live in self.stage.shell.runs.values())
        if self._words and open_now:
            word = self._words.pop(0)
            self.verdicts.append(take(self.stage.shell, word, self.stage.clock.now(), self._sender)[1])


class Asked(Part):
    """An attempt that waits for its permission."""

    def __init__(self, cast: Asker, request: Request) -> None:
        super().__init__(cast, Answer(), 0)
        self._asker, self._turn = cast, request.turn
        self._answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def result(self) -> Result:
        return await self._answer

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        self._asker.heard.append((self._turn, allowed, message))
        self._answer.set_result(Answer(text=str(allowed)))
        return True


def played(plan: Plan, cast: Asker, **options: object) -> tuple[Stage, RunExit]:
    cast.stage = stage = Stage(plan, cast, **options)
    ended = stage.start()
    again = Fold("r", kind_of(plan))
    again.fold(stage.records())  # raises where an engine decides otherwise
    return stage, ended


def test_always_holds_for_the_rest_of_the_run() -> None:
    """The same use is allowed at once, of other agents and in child runs too, and nobody is asked again."""
    cast = Asker(permission("always"))
    stage, _ = played(flow("team -> b", "b -> c", team=nested(3, flow("a -> end"))), cast)

    assert [(allowed, text) for _, allowed, text in cast.heard] == [(True, "")] * 5
    said = [one for one in stage.records() if isinstance(one, r.OperatorSaid)]
    assert [(one.what, one.text, one.source) for one in said] == [("always", RULE, "operator")]  # in the root run
    assert stage.records(r.AttentionAsked) == []
    assert sentence(said[0]) == f"the operator allowed {RULE} in this run"


def test_always_holds_after_a_resume_and_answers_what_is_open() -> None:
    """It is on record; two that ask the same at once are answered by one word."""
    cast = Asker(permission("always", "a#1?1"))
    stage, _ = played(flow("a -> c", "b -> c"), cast)
    assert [one.answer for one in stage.records(r.AttentionAnswered)] == ["always", "allow"]
    assert len(stage.records(r.AttentionAsked)) == 2

    cut = Asker(permission("always"))
    cut.stage = stage = Stage(flow("a -> b"), cut)
    assert stage.start(Limits(max_turns=1)).reason == "max_turns"
    stage.resume(Limits(max_turns=9))
    assert len(stage.records(r.AttentionAsked)) == 1
    assert [turn for turn, _, _ in cut.heard] == ["a#1", "b#1"]


def test_another_use_is_asked_all_the_same() -> None:
    """A rule allows what it says; without one there is no lasting answer."""
    cast = Asker(permission("always"), permission("allow"), rule="")
    stage, _ = played(flow("a -> end"), cast)
    assert cast.verdicts[0].detail == "'always' is no answer to a#1?1: write allow, deny, park or fail"
    [asked] = stage.records(r.AttentionAsked)
    assert asked.answers == ("allow", "deny", "park", "fail")
    assert r.AttentionAsked(id="x", turn="a#1", attempt=1, rule=RULE).answers == r.ATTENTION_ANSWERS["permission"]
    assert r.AttentionAsked(id="x", turn="a#1", attempt=1, kind="stall").answers == ("wait", "interrupt")


def test_only_an_operator_allows_it_for_the_project() -> None:
    """An agent that began the run may answer in the operator's place, but not write settings."""
    cast = Asker(permission("project"), permission("always"), source="agent")
    stage = Stage(flow("a -> b"), cast)
    cast.stage = stage
    asyncio_after = cast.say_next
    cast.say_next = lambda: (asyncio_after(), asyncio_after())  # type: ignore[assignment,func-returns-value]
    stage.start()
    assert cast.verdicts[0].detail == "only an operator may allow it for the project: write 'always' for this run"
    assert [one.what for one in stage.records(r.OperatorSaid)] == ["always"]

    cast = Asker(permission("project"))
    stage, _ = played(flow("a -> b"), cast)
    assert [(one.what, one.text) for one in stage.records(r.OperatorSaid)] == [("project", RULE)]
    assert len(cast.heard) == 2


@bundle(
    ("word", "told"),
    [
        ("deny", ""),
        ("deny use make build instead", "use make build instead"),
        ("deny: use make build", "use make build"),
        ("  deny   use  it ", "use  it"),
    ],
)
def test_a_denial_may_say_what_to_do_instead(word: str, told: str) -> None:
    """The agent hears it, and the journal has it."""
    cast = Asker(permission(word), rule="")
    stage, _ = played(flow("a -> end"), cast)
    assert cast.heard == [("a#1", False, told)]
    [answered] = stage.records(r.AttentionAnswered)
    assert (answered.answer, answered.text) == ("deny", told)
    if told:
        assert sentence(answered) == f"a#1?1 was answered by an operator: deny, “{' '.join(told.split())}”"


@bundle(
    ("word", "heard", "lasting"),
    [
        ("deny try later", (False, "try later"), []),
        ("always", (True, ""), ["always"]),
        ("project", (True, ""), ["project"]),
    ],
)
def test_a_parked_permission_takes_the_same_words(word: str, heard: tuple[bool, str], lasting: list[str]) -> None:
    """The word counts when the turn is tried again and asks the same."""
    options = {"attention_policy": "park", "attention_timeout": 2.0}
    cast = Asker(answer("a#1", word))
    cast.stage = stage = Stage(flow("a -> end", a=AgentPlan(name="a", options=options)), cast, listens=True)
    stage.start()
    assert [one[1:] for one in cast.heard] == [heard]
    assert [one.what for one in stage.records(r.OperatorSaid) if one.what in r.LASTING] == lasting


def test_what_the_operator_allows_for_the_project_reaches_the_agents() -> None:
    """In their options, with what their team's file allows, and at once for what a running attempt asks."""
    agents = {"a": AgentPlan(name="a", backend="acp", options={"allow": ["Edit"]}), "b": AgentPlan(name="b")}
    cast = Asker(permission("deny"))
    stage, _ = played(flow("a -> b", **agents), cast, allow=(RULE,))
    assert [one.agent.options.get("allow") for one in cast.asked] == [["Edit", RULE], None]
    assert stage.records(r.AttentionAsked) == []
    assert [allowed for _, allowed, _ in cast.heard] == [True, True]
