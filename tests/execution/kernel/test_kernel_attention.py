"""What an attempt needs a person for: recorded, answered by an operator or by the policy of its agent, once."""

import asyncio
from collections.abc import Sequence

import pytest
from bundles import bundle
from nests import nested
from stage import Cast, Part, Stage, flow

from coterie.agents.backends.base import Answer, Failure, OnEvent, Permission, Request, Result
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import Approver
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage, Verdict, answer, interruption, permission
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal import records as r
from coterie.history.views.attention import Attention
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, Plan


class Wisher(Cast):
    """Agents that ask for one permission and answer with what they were allowed; an operator says *words*.

    Attributes:
        decided: The decisions that reached attempts.
    """

    def __init__(self, *words: RunMessage, after: float = 5.0) -> None:
        super().__init__({})
        self._words, self._after = words, after
        self.decided: list[bool] = []
        self.verdicts: list[Verdict] = []
        self.silent = 0.0
        self.stalls = False
        self.stage: Stage

    async def start(self, request: Request, on_event: OnEvent) -> "Wish":
        self.asked.append(request)
        if self.stalls:
            return self._stalling(request)
        wish = Permission(id="toolu_1", tool="Bash", detail="make test")
        if self.silent:
            asyncio.get_running_loop().call_later(self.silent, on_event, wish)
        else:
            on_event(wish)
        if request.attempt == 1:
            asyncio.get_running_loop().call_later(self._after, self.stage.shell.post, self.say_all)
        return Wish(self, request)

    def _stalling(self, request: Request) -> Part:
        """Work that takes 100 seconds and seems stuck after 10."""
        if len(self.asked) == 1:
            asyncio.get_running_loop().call_later(10.0, self.stage.shell.post, self._stall)
            asyncio.get_running_loop().call_later(self._after, self.stage.shell.post, self.say_all)
        return Part(self, Answer(), 100.0)

    def _stall(self) -> None:
        asked = r.AttentionAsked(
            id="", turn="a#1", attempt=1, kind="stall", detail="no output for 5 min", policy="wait"
        )
        self.stage.shell.approvals.request(self.stage.shell.runs["r"], asked, None)

    def say_all(self) -> None:
        for word in self._words:
            self.verdicts.append(take(self.stage.shell, word, self.stage.clock.now(), Sender("operator"))[1])


class Wish(Part):
    """An attempt that waits for its permission."""

    def __init__(self, cast: Wisher, request: Request) -> None:
        super().__init__(cast, Answer(), 0)
        self._wisher, self._answer = cast, asyncio.get_running_loop().create_future()

    async def result(self) -> Result:
        return await self._answer

    async def interrupt(self) -> None:
        self._answer.set_result(Failure(kind="interrupted", reason="cut"))

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        self._wisher.decided.append(allowed)
        self._answer.set_result(Answer(text=f"{question} {allowed}"))
        return True


def asking(**options: object) -> Plan:
    """A flow whose first agent asks."""
    return flow("a -> b", a=AgentPlan(name="a", options=options), b=AgentPlan(name="b"))


def played(plan: Plan, cast: Wisher, approver: Approver | None = None) -> Stage:
    cast.stage = stage = Stage(plan, cast, approver=approver)
    stage.start()
    fold = Fold("r", kind_of(plan))
    fold.fold(stage.records())  # raises where an engine decides otherwise
    return stage


def answers(stage: Stage) -> Sequence[tuple[str, str, str]]:
    return [(one.id, one.answer, one.source) for one in stage.records(r.AttentionAnswered)]


@pytest.mark.parametrize(("word", "allowed"), [("allow", True), ("deny", False)])
def test_an_operator_answers_before_the_policy(word: str, allowed: bool) -> None:
    """The agent has the answer, and each question is recorded with its answer."""
    stage = played(asking(), Wisher(permission(word)))
    first = stage.records(r.AttentionAsked)[0]
    assert (first.id, first.tool, first.detail, first.policy) == ("a#1?1", "Bash", "make test", "deny")
    assert first.due == first.at + 600
    assert answers(stage)[0] == ("a#1?1", word, "operator")
    assert stage.records(r.TurnFinished)[0].text == f"toolu_1 {allowed}"


@pytest.mark.parametrize(("policy", "decided"), [("allow", [True, True]), ("deny", [False, False])])
def test_the_policy_answers_when_its_time_has_come(policy: str, decided: list[bool]) -> None:
    """By the agent's deadline."""
    cast = Wisher()
    stage = played(flow("a -> b", **{n: _agent(n, policy, 30.0) for n in "ab"}), cast)
    assert cast.decided == decided
    assert [one.at - asked.at for asked, one in zip(*_pairs(stage), strict=True)] == [30.0, 30.0]


def _agent(name: str, policy: str, seconds: float) -> AgentPlan:
    return AgentPlan(name=name, options={"attention_policy": policy, "attention_timeout": seconds})


def _pairs(stage: Stage) -> tuple[list[r.AttentionAsked], list[r.AttentionAnswered]]:
    return stage.records(r.AttentionAsked), stage.records(r.AttentionAnswered)


def test_a_policy_may_fail_the_attempt() -> None:
    """As any other failure: it is retried, replaced or fatal as the plan says."""
    stage = played(flow("a -> b", a=_agent("a", "fail", 30.0)), Wisher())
    [failed] = stage.records(r.AttemptFailed)
    assert (failed.kind, failed.reason) == ("refused", "Bash was not permitted: make test")
    assert stage.records(r.RunFinished)[0].outcome == "failed"


def test_a_policy_may_park_the_run() -> None:
    """It stops as one that waits for a person, who decides whether the turn is tried again."""
    cast = Wisher()
    stage = played(flow("a -> b", a=_agent("a", "park", 30.0)), cast)
    assert stage.records(r.AttemptInterrupted)[0].reason == "parked"
    assert stage.records(r.RunStopped)[0].reason == "waiting"


class Parker(Wisher):
    """The other agents work for 100 seconds, so that the run goes on while the turn of `a` is parked."""

    async def start(self, request: Request, on_event: OnEvent) -> "Wish | Part":
        if request.agent.name != "a":
            return Part(self, Answer(), 100.0)
        return await super().start(request, on_event)


@pytest.mark.parametrize(
    ("word", "decided", "asked"),
    [
        ("allow", [True], [("park", "harness"), ("allow", "operator")]),
        ("deny", [False], [("park", "harness"), ("deny", "operator")]),
        ("retry", [], [("park", "harness"), ("park", "harness")]),
    ],
)
def test_a_parked_permission_is_still_answered(word: str, decided: list[bool], asked: list[tuple[str, str]]) -> None:
    """The turn is tried again, and the word counts for the same request; `retry` has it ask anew."""
    cast = Parker(answer("a#1", "perhaps"), answer("a#1", word), after=50.0)
    plan = flow("a -> b", "c -> b", a=_agent("a", "park", 30.0), b=AgentPlan(name="b"), c=AgentPlan(name="c"))
    stage = played(plan, cast)
    assert cast.verdicts[0].detail.startswith("a#1 was parked when it asked for permission: Bash (make test)")
    assert cast.decided == decided
    assert [(one, source) for _, one, source in answers(stage)] == asked


def test_a_question_is_answered_once() -> None:
    """The second word is refused, and names what is open."""
    cast = Wisher(permission("allow", "a#1?1"), permission("deny", "a#1?1"), permission("perhaps"))
    played(asking(), cast)
    assert [verdict.status for verdict in cast.verdicts[:2]] == ["accepted", "refused"]
    assert "nothing with the id 'a#1?1' waits" in cast.verdicts[1].detail


def test_an_unknown_answer_is_refused() -> None:
    """And changes nothing."""
    cast = Wisher(permission("perhaps"), permission("deny"))
    played(asking(), cast)
    assert cast.verdicts[0].detail == "'perhaps' is no answer to a#1?1: write allow, deny, park or fail"
    assert cast.verdicts[1].status == "accepted"


def test_an_interrupt_voids_the_question() -> None:
    """The next attempt asks anew."""
    cast = Wisher(interruption("a#1"), after=1.0)
    stage = played(asking(), cast)
    assert [one.id for one in stage.records(r.AttentionAsked)][:2] == ["a#1?1", "a#1?2"]
    assert answers(stage)[0][:2] == ("a#1?2", "deny")


def test_a_question_of_a_child_run_has_an_address() -> None:
    """The turns above it, as for an answer; without one the only open question is meant."""
    plan = flow("team -> after", team=nested(4, asking()))
    address = "team#1.1/team#1.1/team#1.1/team#1.1/a#1?1"
    for words in ((permission("allow", "a#1?1"), permission("allow")), (permission("allow", address),)):
        cast = Wisher(*words)
        played(plan, cast)
        assert [verdict.status for verdict in cast.verdicts][: len(words)] == ["refused", "accepted"][-len(words) :]
        assert cast.decided[0] is True


def test_time_counts_from_the_question() -> None:
    """An agent that works for an hour before it asks leaves a person as much time as any other."""
    cast = Wisher(permission("allow"), after=3700.0)
    cast.silent = 3600.0
    stage = played(asking(), cast)
    asked = stage.records(r.AttentionAsked)[0]
    assert (asked.at, asked.due) == (3600.0, 4200.0)
    assert answers(stage)[0] == ("a#1?1", "allow", "operator")


@pytest.mark.parametrize(("word", "attempts"), [("wait", 1), ("interrupt", 2)])
def test_a_stall_is_answered_by_waiting_or_an_interrupt(word: str, attempts: int) -> None:
    """As an operator or its policy says; other words are refused."""
    cast = Wisher(permission("allow"), permission(word), after=60.0)
    cast.stalls = True
    stage = played(asking(), cast)
    [asked] = stage.records(r.AttentionAsked)
    assert sentence(asked) == "a#1 may be stuck: no output for 5 min"
    assert cast.verdicts[0].detail == "'allow' is no answer to a#1?1: write wait or interrupt"
    assert answers(stage) == [("a#1?1", word, "operator")]
    assert len([one for one in cast.asked if one.turn == "a#1"]) == attempts


def test_a_program_answers() -> None:
    """It is called with what is needed, once for each, of child runs too; what it answers counts as an operator's."""
    seen: list[Attention] = []

    async def approver(one: Attention) -> str:
        seen.append(one)
        return "allow"

    cast = Wisher()
    stage = played(flow("team -> after", team=nested(4, asking())), cast, approver)
    above = "team#1.1/team#1.1/team#1.1/team#1.1/"
    assert [one.id for one in seen[:3]] == [f"{above}a#1?1", f"{above}b#1?2", "team#1.1/team#1.1/team#1.1/after#1?1"]
    assert all(cast.decided)
    assert seen[0].text == "a#1 asks for permission: Bash (make test)"
    assert seen[0].command == f"coterie attention r '{above}a#1?1' allow|deny|park|fail"
    assert stage.records(r.RunFinished)[0].outcome == "completed"


def test_an_answer_from_elsewhere_ends_the_call_of_the_program() -> None:
    """So does the policy, and the end of the attempt."""
    over: list[str] = []

    async def approver(one: Attention) -> str:
        try:
            await asyncio.sleep(1e6)
        finally:
            over.append(one.id)
        return "allow"

    stage = played(asking(), Wisher(permission("deny")), approver)
    assert over == ["a#1?1", "b#1?2"]
    assert [one[1:] for one in answers(stage)] == [("deny", "operator"), ("deny", "harness")]


@pytest.mark.parametrize("word", ["perhaps", "", "cancelled"])
def test_what_is_no_answer_of_a_program_fails_the_attempt(word: str) -> None:
    """As a defect of the program, which is retried as any other; an error that it raises does the same."""

    async def approver(one: Attention) -> str:
        if word == "perhaps":
            return word
        raise asyncio.CancelledError if word else ValueError("no")

    stage = played(asking(), Wisher(), approver)
    failed = stage.records(r.AttemptFailed)[0]
    expected = {
        "perhaps": "'perhaps' is no answer to a#1?1: write allow, deny, park or fail",
        "": "ValueError: no",
        "cancelled": "it awaited something that had been cancelled",
    }
    assert (failed.kind, failed.reason) == ("crashed", expected[word])


@bundle("late", ["deny", "perhaps", ""])
def test_an_answer_of_a_program_right_after_an_operators_changes_nothing(late: str) -> None:
    """Whatever it is, or raises: it fails no attempt, and is no second answer."""
    cast = Wisher(permission("allow"))

    async def approver(one: Attention) -> str:
        if one.turn == "b#1":
            return "allow"
        cast.stage.shell.post(cast.say_all)
        if not late:
            raise ValueError("no")
        return late

    stage = played(asking(), cast, approver)
    assert answers(stage) == [("a#1?1", "allow", "operator"), ("b#1?2", "allow", "operator")]
    assert stage.records(r.AttemptFailed) == []
    assert cast.decided == [True, True]
