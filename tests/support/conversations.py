"""Plays the generator of a pattern by hand: no journal, no core, just questions and replies."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from coterie.history.engines.questions import AgentFailed, Question, Together
from coterie.history.journal.records import TurnFinished

Answers = Callable[[Question], "TurnFinished | AgentFailed | str"]


def reply(text: str, **outputs: Any) -> TurnFinished:
    """A reply that says *text*."""
    return TurnFinished(turn="someone#1", attempt=1, text=text, outputs=outputs)


def play(conversation: Generator[Any, Any, Any], answers: Answers) -> tuple[Any, list[list[Question]]]:
    """What *conversation* returns, asked by *answers*, and its questions: those asked at once are one list."""
    rounds: list[list[Question]] = []

    def come(question: Question) -> TurnFinished | AgentFailed:
        said = answers(question)
        return reply(said) if isinstance(said, str) else said

    try:
        asked = next(conversation)
        while True:
            if isinstance(asked, Together):
                rounds.append(list(asked.questions))
                asked = conversation.send([come(question) for question in asked.questions])
            elif isinstance(asked, Question):
                rounds.append([asked])
                got = come(asked)
                asked = conversation.throw(got) if isinstance(got, AgentFailed) else conversation.send(got)
            else:
                asked = conversation.send(None)
    except StopIteration as end:
        return end.value, rounds


def in_turn(*said: "TurnFinished | AgentFailed | str") -> Answers:
    """Answers the first question with the first of *said*, and so on."""
    left = iter(said)
    return lambda question: next(left)


def agents(rounds: Sequence[Sequence[Question]]) -> list[list[str]]:
    """Who was asked, round by round."""
    return [[question.agent for question in asked] for asked in rounds]
