"""Requests that models answer within an attempt: what the journal and the next attempt know of them."""

import asyncio

import pytest
from stage import Behaviour, Cast, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Failure, Stepped, Used
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptInterrupted, AttemptStep, TurnFinished, Usage
from coterie.history.views import usage
from coterie.team.planning.plan import AgentPlan

ONE = Usage(input_tokens=100, cost=0.25)
TWO = Usage(input_tokens=200, cost=0.5)
WORK = Streamed([(1.0, Stepped(n=1, usage=ONE, calls=("pay",))), (1.0, Stepped(n=2, usage=ONE))], Answer(usage=TWO))
WRONG = Streamed([(1.0, Stepped(n=1, usage=ONE))], Failure(kind="invalid_output", reason="no total", usage=ONE))


def staged(*parts: Behaviour, policy: str = "resume") -> Stage:
    return Stage(flow("a -> b", a=AgentPlan(name="a", on_interrupt=policy)), Cast({"a": parts}))


def killed(stage: Stage, kind: type, n: int = 1) -> Stage:
    """A stage whose journal is that of *stage* up to its *n*-th record of *kind*."""
    records = stage.records()
    end = [k for k, one in enumerate(records) if isinstance(one, kind)][n - 1] + 1
    left = Stage(stage.plan, Cast({"a": [WORK]}))
    left.store = MemoryStore()
    writer = left.store.claim("r")
    writer.append(records[:end])
    asyncio.run(writer.close())
    return left


def test_a_request_counts_until_its_attempt_has_ended() -> None:
    """Then the total of the attempt replaces it, so that each is counted once; a crash leaves what was counted."""
    stage = staged(WORK)
    stage.start()
    steps = stage.records(AttemptStep)
    assert [(one.n, one.usage, one.calls) for one in steps] == [(1, ONE, ("pay",)), (2, ONE, ())]
    dead = killed(stage, AttemptStep, 2)
    assert usage.fold(dead.records()).total.cost == 0.5
    dead.resume()
    [cut] = dead.records(AttemptInterrupted)
    assert (cut.usage.cost, cut.usage.input_tokens) == (0.5, 200)
    assert usage.fold(dead.records()).total.cost == 1.0
    assert usage.fold(stage.records()).total.cost == 0.5


@pytest.mark.parametrize(("policy", "continues"), [("resume", True), ("retry", False)])
def test_an_interrupted_attempt_is_continued_if_its_policy_says_so(policy: str, continues: bool) -> None:
    """With another policy it begins anew, and its prompt has another note; the requests count in both cases."""
    stage = staged(WORK, policy=policy)
    stage.start()
    dead = killed(stage, AttemptStep)
    dead.resume()
    again = dead.cast.asked[0]
    assert (again.attempt, again.continues, again.answered) == (2, continues, 1)
    assert again.prompt.endswith(again.tail.interruption)
    assert again.tail.interruption.startswith("# Go on" if continues else "# An earlier attempt was interrupted")
    assert again.question == stage.cast.asked[0].prompt


def test_a_lost_node_takes_the_conversation_with_it() -> None:
    """The folder of the attempt was there; the attempt after the next one may go on again."""
    lost = Streamed([(1.0, Stepped(n=1, usage=ONE))], Failure(kind="lost", reason="gone"))
    stage = staged(lost, WRONG, WORK)
    stage.start()
    assert [one.continues for one in stage.cast.asked if one.agent.name == "a"] == [False, False, True]


def test_an_answer_that_does_not_count_is_continued_with_the_reason() -> None:
    """The question stays the same, whatever follows it in the prompt."""
    stage = staged(WRONG, WORK)
    stage.start()
    first, second = (one for one in stage.cast.asked if one.agent.name == "a")
    assert (second.continues, second.answered, second.tail.refused) == (True, 1, 1)
    assert "no total" in second.tail.refusal
    assert second.tail.interruption == ""
    assert second.question == first.question == first.prompt
    assert stage.records(TurnFinished)[0].usage == TWO


def test_a_reason_stays_with_an_attempt_that_is_interrupted() -> None:
    """The model may not have heard it."""
    stage = staged(WRONG, WORK)
    stage.start()
    dead = killed(stage, AttemptStep, 2)
    dead.resume()
    tail = dead.cast.asked[0].tail
    assert "no total" in tail.refusal
    assert tail.interruption.startswith("# Go on")
    assert dead.cast.asked[0].prompt.endswith(f"{tail.refusal}\n\n{tail.interruption}")


def test_the_latest_report_counts_if_it_says_more() -> None:
    """A total that was reported beyond the answered requests is not lowered by them."""
    more = Streamed([(1.0, Stepped(n=1, usage=ONE)), (0.0, Used(usage=TWO))], Failure(kind="exit", reason="no"))
    stage = staged(more, WORK)
    stage.start()
    assert usage.fold(stage.records()).total.cost == pytest.approx(0.5)


class _Kept(AttemptFiles):
    """Notes whose conversations are removed."""

    def __init__(self) -> None:
        self.forgotten: list[tuple[str, int]] = []

    def forget(self, run: str, turn: str, attempts: int) -> None:
        self.forgotten.append((turn, attempts))


def test_a_conversation_is_removed_with_the_end_of_its_turn_or_of_a_run_that_is_not_retried() -> None:
    """That of a turn that failed the run is kept, since it may be retried; others only once nothing may be."""
    ends = {
        "finished": (flow("a -> b"), [WORK], [("a#1", 1)]),
        "failed": (flow("a -> b"), [WRONG], []),
        "skipped": (flow("a -> b", a=AgentPlan(name="a", on_fail="skip")), [WRONG], [("a#1", 2)]),
    }
    for name, (plan, parts, forgotten) in ends.items():
        files = _Kept()
        Stage(plan, Cast({"a": parts}), files=files).start()
        assert files.forgotten == forgotten, name
