"""A generator as an engine: what it is sent, what it may count on, and how it can end."""

import gc
import random
import signal
import subprocess
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given as cases
from hypothesis import strategies as st
from steps import lines_run

from coterie.history.engines.commands import Ask, Cancel, Command, Finish, Note
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import (
    AgentFailed,
    AgentResult,
    Conversation,
    PatternFailed,
    Question,
    Tell,
    Together,
)
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    MessageSent,
    Record,
    RunFinished,
    RunStarted,
    TurnFailed,
    TurnFinished,
    Usage,
)
from coterie.team.planning.pattern import SlotPlan
from coterie.team.planning.plan import AgentPlan

Answer = Callable[[Ask], Record]


class Driver:
    """Plays an engine: whoever is asked answers at once, or when it is told to."""

    def __init__(self, engine: GeneratorEngine, answer: Answer | None = None) -> None:
        self.engine, self.answer = engine, answer or said
        self.asked: list[Ask] = []
        self.open: dict[str, Ask] = {}
        self.told: list[MessageSent] = []
        self.cancelled: list[str] = []
        self.finish: Finish | None = None

    def begin(self, **given: Any) -> "Driver":
        self._take(self.engine.step(RunStarted(run="r", engine="generator", input=given)))
        return self

    def hear(self, turn: str, record: Record | None = None) -> None:
        ask = self.open.pop(turn)
        self._take(self.engine.step(record or self.answer(ask)))

    def to_end(self, choose: Callable[[Sequence[str]], str] = lambda turns: turns[0]) -> Finish:
        while self.finish is None:
            self.hear(choose(list(self.open)))
        return self.finish

    def _take(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Ask():
                    self.asked.append(command)
                    self.open[command.turn] = command
                case Cancel(turn=turn):
                    self.cancelled.append(turn)
                    del self.open[turn]
                case Note(record=MessageSent() as record):
                    self.told.append(record)
                case Finish():
                    self.finish = command


def said(ask: Ask) -> TurnFinished:
    return TurnFinished(turn=ask.turn, attempt=1, text=f"{ask.agent} on {ask.prompt}")


def failed(ask: Ask) -> TurnFailed:
    return TurnFailed(turn=ask.turn, kind="exit", reason="it broke")


def texts(got: Sequence[AgentResult]) -> list[str]:
    return ["-" if one is None else str(one) if isinstance(one, AgentFailed) else one.text for one in got]


def engine(play: Callable[[], Conversation], **args: Any) -> GeneratorEngine:
    return GeneratorEngine(lambda given: play(), **args)


def test_a_question_carries_all_that_whoever_is_asked_needs() -> None:
    def play() -> Conversation:
        yield Question("a", "now", history=[("user", "before")], given={"deep": 1})

    [ask] = Driver(engine(play)).begin().asked
    assert (ask.turn, ask.agent, ask.prompt, ask.history, ask.whole) == (
        "a#1", "a", "now", (("user", "before"),), {"deep": 1},
    )  # fmt: skip


def test_what_is_told_is_written_down_before_the_next_question_and_as_json_reads_it_back() -> None:
    def play() -> Conversation:
        yield Tell("a", None, "broadcast", {"pair": (1, 2)}, round=3)
        yield Tell("a", "b", "response", {})
        return (yield Question("b", "q")).text

    driver = Driver(engine(play)).begin()
    assert driver.told == [
        MessageSent(sender="a", recipient="", type="broadcast", content={"pair": [1, 2]}, round=3),
        MessageSent(sender="a", recipient="b"),
    ]
    assert driver.to_end().result == "b on q"


def test_no_more_than_so_many_are_asked_at_once() -> None:
    def play() -> Conversation:
        got = yield Together(*(Question("a", str(n)) for n in range(5)), most=2)
        return texts(got)

    driver = Driver(engine(play)).begin()
    most = 0
    while driver.finish is None:
        most = max(most, len(driver.open))
        driver.hear(list(driver.open)[-1])
    assert most == 2
    assert driver.finish.result == [f"a on {n}" for n in range(5)]
    assert [ask.turn for ask in driver.asked] == [f"a#{n}" for n in range(1, 6)]


@cases(st.randoms(use_true_random=False), st.integers(1, 8), st.none() | st.integers(1, 4), st.integers(1, 9))
def test_who_is_faster_decides_nothing(chance: random.Random, n: int, most: int | None, enough: int) -> None:
    """Replies count in the order asked, also where enough of them end it: what stands behind is lost."""

    def play() -> Conversation:
        first = yield Together(
            *(Question(f"a{k % 3}", str(k)) for k in range(n)),
            most=most,
            until=lambda got: sum(isinstance(one, TurnFinished) for one in got) >= enough,
        )
        last = yield Question("a0", "last")
        return [*texts(first), last.text]

    def answer(ask: Ask) -> Record:
        return failed(ask) if ask.prompt in ("1", "4") else said(ask)

    in_order = Driver(engine(play), answer).begin().to_end()
    shuffled = Driver(engine(play), answer).begin()
    assert shuffled.to_end(chance.choice) == in_order
    assert shuffled.asked[-1].turn == Driver(engine(play), answer).begin().asked[0].turn.replace(
        "#1", f"#{-(-n // 3) + 1}"
    )


def test_what_looks_at_replies_is_shown_them_as_they_come() -> None:
    """Nothing of it changes later, and to show them takes the harness one step, however many there are."""
    shown: list[Sequence[AgentResult]] = []

    def work(n: int) -> int:
        def look(got: Sequence[AgentResult]) -> bool:
            shown.append(got)
            return False

        def play() -> Conversation:
            yield Together(*(Question("a", str(k)) for k in range(n)), until=look)
            return "x"

        driver = Driver(engine(play)).begin()
        shown.clear()
        return lines_run(lambda: [driver.hear(f"a#{k}") for k in range(1, n + 1)])

    assert work(200) < 2.1 * work(100)
    assert [[one is not None for one in got] for got in shown[:2]] == [[k <= n for k in range(100)] for n in (0, 1)]


def test_what_is_called_off_is_cancelled_and_a_late_reply_changes_nothing() -> None:
    def play() -> Conversation:
        got = yield Together(*(Question("a", str(n)) for n in range(3)), until=lambda got: got[0] is not None)
        return texts(got)

    driver = Driver(engine(play)).begin()
    late = driver.open["a#2"]
    driver.hear("a#3")
    driver.hear("a#1")
    assert driver.cancelled == ["a#2"]
    assert driver.finish is not None
    assert driver.finish.result == ["a on 0", "-", "-"]
    assert list(driver.engine.step(said(late))) == []


def test_somebody_stands_in_and_the_place_keeps_its_name() -> None:
    def play() -> Conversation:
        return (yield Question("a", "q")).text

    agents = {"a": AgentPlan(name="a", on_fail="fallback", fallback="b"), "b": AgentPlan(name="b")}
    driver = Driver(engine(play, agents=agents), lambda ask: failed(ask) if ask.agent == "a" else said(ask)).begin()
    assert driver.to_end().result == "b on q"
    assert [(ask.turn, ask.agent, ask.instead_of) for ask in driver.asked] == [("a#1", "a", ""), ("a.b#1", "b", "a")]

    driver = Driver(engine(play, agents=agents), failed).begin()
    assert driver.to_end() == Finish(
        outcome="failed", reason="a.b#1 failed (exit): it broke", result={"kind": "exit"}, at_fault=("a.b#1",)
    )


def test_who_stands_in_may_be_stood_in_for_and_nobody_is_asked_twice() -> None:
    def play() -> Conversation:
        return (yield Question("a", "q")).text

    agents = {name: AgentPlan(name=name, on_fail="fallback", fallback=other) for name, other in ("ab", "bc", "ca")}
    driver = Driver(engine(play, agents=agents), failed).begin()
    assert driver.to_end().outcome == "failed"
    assert [(ask.turn, ask.agent, ask.instead_of) for ask in driver.asked] == [
        ("a#1", "a", ""), ("a.b#1", "b", "a"), ("a.c#1", "c", "a"),
    ]  # fmt: skip


def test_a_failure_is_raised_at_a_question_and_is_a_value_among_several() -> None:
    def play() -> Conversation:
        try:
            yield Question("a", "q")
        except AgentFailed as failure:
            caught = failure.kind
        got = yield Together(Question("a", "q"), Question("a", "q"))
        return [caught, *texts(got)]

    driver = Driver(engine(play), failed).begin()
    assert driver.to_end().result == ["exit", "a#2 failed (exit): it broke", "a#3 failed (exit): it broke"]


def test_a_spent_budget_asks_nobody() -> None:
    def play() -> Conversation:
        for _ in range(2000):
            try:
                yield Question("a", "q")
            except AgentFailed as failure:
                reason = str(failure)
        got = yield Together(Question("b", "1"), Question("b", "2"))
        return [reason, *texts(got)]

    budgets = {"a": SlotPlan(name="a", calls=3), "b": SlotPlan(name="b", calls=1)}
    driver = Driver(engine(play, budgets=budgets)).begin()
    result = driver.to_end().result
    assert result == ["a has had all the turns it may have: 3", "b on 1", "b has had all the turns it may have: 1"]
    assert [ask.turn for ask in driver.asked] == ["a#1", "a#2", "a#3", "b#1"]


@pytest.mark.parametrize(
    "ended",
    [
        AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no", usage=Usage(cost=0.3)),
        AttemptInterrupted(turn="a#1", attempt=1, reason="crash", usage=Usage(cost=0.3)),
    ],
)
def test_what_other_attempts_cost_counts_too(ended: Record) -> None:
    """Those that failed, and those that were cut off."""

    def play() -> Conversation:
        texts = []
        for _ in range(3):
            try:
                texts.append((yield Question("a", "q")).text)
            except AgentFailed as failure:
                texts.append(str(failure))
        return texts

    driver = Driver(engine(play, budgets={"a": SlotPlan(name="a", cost=0.5)})).begin()
    driver.engine.step(ended)
    driver.hear("a#1", TurnFinished(turn="a#1", attempt=2, text="fine", usage=Usage(cost=0.3)))
    assert driver.finish is not None
    assert driver.finish.result == ["fine", *["a may cost $0.5, and has cost $0.6000"] * 2]
    assert driver.engine.spent == Usage(cost=0.6, turns=1)


def test_what_has_cost_too_much_is_seen_before_each_question_of_several() -> None:
    """And before somebody stands in: that one's turn would be paid for by the same budget."""

    def play() -> Conversation:
        return texts((yield Together(*(Question("a", str(n)) for n in range(3)), most=1)))

    agents = {"a": AgentPlan(name="a", on_fail="fallback", fallback="b"), "b": AgentPlan(name="b")}
    budgets = {"a": SlotPlan(name="a", cost=0.5)}
    cost = Usage(cost=0.3)
    driver = Driver(engine(play, agents=agents, budgets=budgets)).begin()
    for turn in ("a#1", "a#2"):
        driver.hear(turn, TurnFinished(turn=turn, attempt=1, text="fine", usage=cost))
    over = "a may cost $0.5, and has cost $0.6000"
    assert driver.finish is not None
    assert driver.finish.result == ["fine", "fine", over]

    driver = Driver(engine(play, agents=agents, budgets=budgets)).begin()
    driver.engine.step(AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no", usage=cost + cost))
    driver.hear("a#1", TurnFailed(turn="a#1", kind="exit", reason="no"))
    assert driver.finish is not None
    assert driver.finish.result == [over, over, over]
    assert [ask.turn for ask in driver.asked] == ["a#1"]


@bundle(
    ("play", "reason"),
    [
        (lambda: _raising(PatternFailed("Too many failures: 2/3")), "Too many failures: 2/3"),
        (lambda: _raising(KeyError("x")), "the pattern raised KeyError: 'x'"),
        (
            lambda: _raising(None),
            "the pattern raised TypeError: a pattern must yield a Question, Together or Tell, not NoneType",
        ),
        (lambda: _yielding(lambda: "a question"), "a pattern must yield a Question, Together or Tell, not str"),
        (lambda: _yielding(lambda: Question("a", None)), "its prompt must be of type str, not NoneType"),  # type: ignore[arg-type]
        (lambda: _yielding(lambda: Question("a", "\ud800")), "UnicodeEncodeError"),
        (lambda: _yielding(lambda: Question(1, "q")), "the agent of a question must be of type str, not int"),  # type: ignore[arg-type]
        (lambda: _yielding(lambda: Question("a", "q", history=[("narrator", "once")])), "ValidationError"),
        (lambda: _yielding(lambda: Question("a", "q", history=[("user",)])), "ValidationError"),  # type: ignore[list-item]
        (lambda: _yielding(lambda: Question("a", "q", given={"x": object()})), "TypeError"),
        (lambda: _yielding(lambda: Together("a")), "each argument of Together must be of type Question, not str"),  # type: ignore[arg-type]
        (lambda: _yielding(lambda: Together(Question("a", "q"), most=0)), "most=0: at least one question must be open"),
        (lambda: _yielding(lambda: Tell("a", "b", "gossip", {})), "unknown message type 'gossip'"),
        (lambda: _yielding(lambda: Tell(None, "b", "request", {})), "the sender must be of type str"),  # type: ignore[arg-type]
        (lambda: _yielding(lambda: Tell("a", "b", "request", {"x": object()})), "TypeError"),
    ],
)
def test_a_generator_that_gives_up_fails_its_run_with_its_words(play: Callable[[], Conversation], reason: str) -> None:
    finish = Driver(engine(play)).begin().finish
    assert finish is not None
    assert (finish.outcome, reason in finish.reason) == ("failed", True), finish.reason


def test_whoever_is_not_there_cannot_be_asked() -> None:
    """Where it is known who is."""
    finish = Driver(engine(lambda: _yielding(lambda: Question("b", "q")), agents={"a": AgentPlan(name="a")})).begin()

    assert finish.finish == Finish(outcome="failed", reason="the pattern asked the unknown slot 'b'; its slots are a")


class Odd(BaseException):
    """No `Exception`, and its text cannot be made."""

    def __str__(self) -> str:
        raise SystemExit(4)


RAISED: list[BaseException] = [
    SystemExit(3),
    CancelledError(),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(1),
    Odd(),
]


@bundle("raised", RAISED, ids=lambda raised: type(raised).__name__)
@bundle("where", ["called", "asked", "replied", "looked", "returned"])
def test_whatever_a_pattern_raises_fails_its_run(raised: BaseException, where: str) -> None:
    """At its call, its first or a later step, in what looks at replies and in its result: the owner goes on."""

    class Result(GeneratorEngine):
        def completed(self, value: Any) -> Finish:
            if where == "returned":
                raise raised
            return super().completed(value)

    def look(got: Sequence[AgentResult]) -> bool:
        raise raised

    def play(given: dict[str, Any]) -> Conversation:
        if where == "called":
            raise raised
        return steps()

    def steps() -> Conversation:
        if where == "asked":
            raise raised
        yield Together(Question("a", "1"), Question("a", "2"), until=look if where == "looked" else None)
        if where == "replied":
            raise raised
        return "done"

    with monkeypatched_handler():
        driver = Driver(Result(play)).begin()
        while driver.finish is None:
            driver.hear(next(iter(driver.open)))

    assert driver.finish.outcome == "failed"
    wanted = "RuntimeError" if isinstance(raised, StopIteration) and where != "returned" else type(raised).__name__
    assert driver.finish.reason.startswith(f"the pattern raised {wanted}"), driver.finish.reason
    assert not driver.open


@contextmanager
def monkeypatched_handler() -> Iterator[None]:
    """As where a signal handler takes Ctrl-C: a `KeyboardInterrupt` is the code's own."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_pattern_is_not_its_failure() -> None:
    """Where no signal handler takes it, as in a script."""
    with pytest.raises(KeyboardInterrupt):
        Driver(engine(lambda: _raising(KeyboardInterrupt()))).begin()


def test_a_question_that_cannot_be_written_down_fails_its_run_and_calls_the_others_off() -> None:
    """A pattern may change a question after it was made."""

    def play() -> Conversation:
        second = Question("a", "2")
        second.given = {"x": object()}
        yield Together(Question("a", "1"), second)

    driver = Driver(engine(play)).begin()
    assert driver.finish is not None
    assert "the pattern raised TypeError" in driver.finish.reason
    assert driver.cancelled == ["a#1"]


@bundle("end", ["finished", "closed", "forgotten"])
def test_what_a_pattern_asks_or_raises_at_its_end_has_no_effect(end: str) -> None:
    """Its code is closed when its run has ended, its owner lets go, or nobody needs the engine any more."""
    seen: list[str] = []

    def play() -> Conversation:
        try:
            yield Question("a", "1")
        finally:
            seen.append("closed")
            try:
                yield Question("a", "asked too late")
            finally:
                seen.append("closed again")
                sys.exit("too late")

    driver = Driver(engine(play)).begin()
    if end == "finished":
        assert driver.engine.step(RunFinished(outcome="cancelled")) == ()
        assert seen == ["closed", "closed again"]
    elif end == "closed":
        driver.engine.close()
        driver.engine.close()
        assert seen == ["closed", "closed again"]
    asked = list(driver.asked)
    del driver
    gc.collect()

    assert [ask.prompt for ask in asked] == ["1"]
    assert seen == ["closed", "closed again"]


def test_code_that_cannot_be_closed_ends_with_its_process(tmp_path: Path) -> None:
    """Python would close it again at the end of the process, or at any other moment, and say so."""
    script = tmp_path / "script.py"
    script.write_text(
        "from coterie.history.engines.generator import GeneratorEngine, Question\n"
        "from coterie.history.journal.records import RunStarted\n"
        "def play(given):\n"
        "    while True:\n"
        "        try:\n"
        "            yield Question('a', 'again')\n"
        "        except:\n"
        "            pass\n"
        "GeneratorEngine(play).step(RunStarted(run='r', engine='generator'))\n"
        "print('over')\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")


def test_an_until_that_raises_raises_where_it_was_yielded() -> None:
    """Who was still asked is called off."""

    def play() -> Conversation:
        try:
            yield Together(Question("a", "1"), Question("a", "2"), until=lambda got: 1 // 0 == 0)
        except ZeroDivisionError as error:
            return str(error)

    driver = Driver(engine(play)).begin()
    driver.hear("a#1")
    assert driver.cancelled == ["a#2"]
    assert driver.finish is not None
    assert "zero" in driver.finish.result


def test_no_questions_at_all_are_answered_at_once() -> None:
    def play() -> Conversation:
        return (yield Together())

    assert Driver(engine(play)).begin().finish == Finish(outcome="completed", result=[])


def _yielding(made: Callable[[], Any]) -> Conversation:
    yield made()


def _raising(error: BaseException | None) -> Conversation:
    if error is not None:
        raise error
    yield None  # type: ignore[misc]


def test_whoever_asked_hears_of_what_kind_the_failure_was() -> None:
    """Also where the generator says in words of its own what could not be done."""

    def play() -> Conversation:
        try:
            yield Question("a", "q")
        except AgentFailed as failure:
            raise PatternFailed("half of it is missing") from failure

    driver = Driver(engine(play), lambda ask: TurnFailed(turn=ask.turn, kind="quota", reason="no money")).begin()
    assert driver.to_end() == Finish(
        outcome="failed", reason="half of it is missing", result={"kind": "quota"}, at_fault=("a#1",)
    )
