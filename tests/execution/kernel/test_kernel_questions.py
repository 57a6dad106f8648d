"""The questions of a pattern are in its journal: code that has changed must still ask them."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from bundles import bundle
from played import played
from stage import Cast

from coterie.agents.backends.base import Answer, Failure
from coterie.base.clock import SystemClock
from coterie.errors import ReplayMismatch
from coterie.execution.kernel.commands import gist
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Kind
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import AgentFailed, Conversation, Question
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record, RunFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, Plan, Wanted

Asks = Callable[[str], Question]
PLAN = Plan(name="p", agents={name: AgentPlan(name=name) for name in ("writer", "critic")})
LONG = "What was found, one by one. " * 20


def draft(said: str) -> Question:
    return Question("writer", f"Draft it: {said}")


def check(said: str) -> Question:
    """The second question, with all that a question may have."""
    return Question(
        "critic",
        f"Check it.\n{said}\nIs it right?",
        (Wanted(name="verdict"),),
        fields=(Wanted(name="why", type="text"),),
        history=[("user", "Be brief."), ("assistant", "I am.")],
        given={"rounds": [1, None], "topic": {"a": 1, "b": 2}},
    )


def kind(*asks: Asks) -> Callable[[Plan], Kind]:
    """A pattern that asks one question after the other, each about the answer before."""

    def conversation(given: dict[str, Any]) -> Conversation:
        said = given["prompt"]
        for ask in asks:
            said = (yield ask(said)).text
        return said

    return played(lambda plan: (GeneratorEngine(conversation, plan.agents), plan.agents))


def records_of(make: Callable[[Plan], Kind], cast: Cast | None = None, plan: Plan = PLAN, **ports: Any) -> list[Record]:
    """The records of a run of *make*."""
    store, cast = MemoryStore(), cast or Cast({}, seconds=0.0)
    shell = Shell(RunPorts(store=store, turns=cast, make_kind=make, clock=SystemClock(), **ports))
    asyncio.run(shell.start("r", plan, {"prompt": "go"}))
    return list(store.read("r"))


def journal() -> list[Record]:
    """The records of a run of two questions."""
    cast = Cast({"writer": [Answer(text=LONG)], "critic": [Answer(text="Yes", outputs={"verdict": "ok"})]}, seconds=0.0)
    return records_of(kind(draft, check), cast)


def starts(records: list[Record]) -> Iterator[TurnStarted]:
    return (record for record in records if isinstance(record, TurnStarted))


def changed(**what: Any) -> Asks:
    """The second question, with *what* changed."""

    def ask(said: str) -> Question:
        question = check(said)
        for name, value in what.items():
            setattr(question, name, value(getattr(question, name)))
        return question

    return ask


CHANGES = {
    "the text": changed(prompt=lambda text: text.replace("right", "wrong")),
    "the text in its middle": changed(prompt=lambda text: text.replace("found, one", "found: one", 11)),
    "the history": changed(history=lambda history: history[:1]),
    "a role of the history": changed(history=lambda history: tuple(("user", text) for _, text in history)),
    "a value": changed(given=lambda given: given | {"rounds": [1, 0]}),
    "no values": changed(given=lambda given: None),
    "a wanted output": changed(wanted=lambda wanted: ()),
    "the type of a field": changed(fields=lambda fields: (Wanted(name="why", type="number"),)),
}


@bundle("change", [*CHANGES])
def test_another_question_than_the_recorded_one_is_a_mismatch(change: str) -> None:
    """It shows both, and says where to go on; the answer to the old question is not taken for that to the new one."""
    records = journal()
    first, second = starts(records)

    with pytest.raises(ReplayMismatch) as caught:
        Fold("r", kind(draft, CHANGES[change])(PLAN)).fold(records)

    assert caught.value.seq == second.seq
    text = str(caught.value)
    assert f"turn.started critic#1, which asks {second.question!r}" in text
    assert "wants Ask critic#1, which asks 'Check it.\\n" in text
    assert ("Is it wrong?" in text) is (change == "the text")
    assert "the code asks another question than the recorded one" in text
    assert f"`coterie fork r --at {second.seq - 1}`" in text
    assert first.asked != second.asked


def test_the_same_question_goes_on() -> None:
    """Whatever else of the code has changed, and in whatever order a value's names come."""
    again = changed(given=lambda given: {"topic": {"b": 2, "a": 1}, "rounds": given["rounds"]})
    fold = Fold("r", kind(draft, again)(PLAN))
    fold.fold(journal())

    assert fold.finished is not None
    assert fold.finished.result == "Yes"


def test_journals_without_questions_are_read_as_before() -> None:
    """Those of earlier releases hold none, so none is compared."""
    old = [
        msgspec.structs.replace(record, asked="", question="") if isinstance(record, TurnStarted) else record
        for record in journal()
    ]
    fold = Fold("r", kind(draft, CHANGES["the text"])(PLAN))
    fold.fold(old)

    assert fold.finished is not None


def test_a_question_is_recorded_once_and_without_notes_on_attempts() -> None:
    """A retried turn asks the same; a fallback is asked the question of its slot."""
    agents = PLAN.agents | {"writer": AgentPlan(name="writer", retry=1, on_fail="fallback", fallback="critic")}
    cast = Cast({"writer": [Failure(kind="exit", reason="no")]}, seconds=0.0)
    make = played(lambda _: (GeneratorEngine(_one_question, agents), agents))
    own, again, fallback = starts(records_of(make, cast, msgspec.structs.replace(PLAN, agents=agents)))

    assert (own.attempt, again.attempt, fallback.agent) == (1, 2, "critic")
    assert (own.question, again.question, fallback.question) == ("Draft it: go", "", "Draft it: go")
    assert own.asked == fallback.asked != ""
    assert again.asked == ""


def _one_question(given: dict[str, Any]) -> Conversation:
    try:
        return (yield draft(given["prompt"])).text
    except AgentFailed as failed:
        return str(failed)


def test_a_long_question_is_kept_by_its_beginning_and_its_end() -> None:
    """A journal grows with what is new, and a question may quote all that was said."""
    assert gist("a" * 180) == "a" * 180
    assert gist(f"begin{'a' * 200}end") == f"begin{'a' * 75} … 78 characters … {'a' * 47}end"
    [_, second] = starts(journal())
    assert len(second.question) < 200 < len(LONG)


def test_a_secret_is_not_kept_in_a_question() -> None:
    """The text for people is as redacted as the prompt."""
    make = kind(lambda said: Question("writer", "Use hunter2-hunter2"))
    [start] = starts(records_of(make, environment={"A_TOKEN": "hunter2-hunter2"}))

    assert start.question.startswith("Use ")
    assert "hunter2" not in start.question


def test_a_chat_that_cannot_be_written_down_fails_the_pattern() -> None:
    """Half a surrogate pair is an error of the pattern, not the end of its owner."""
    *_, end = records_of(kind(lambda said: Question("writer", "go on", history=[("user", "\udc00")])))

    assert isinstance(end, RunFinished)
    assert "UnicodeEncodeError" in end.reason
