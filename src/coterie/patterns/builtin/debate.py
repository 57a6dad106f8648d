"""Two sides argue, then a mediator or a vote decides.

The proponent opens; in each round the opponent answers and, except in the last round, the proponent replies. A side
that fails ends the debate: half a debate has no meaningful verdict.
"""

import re
from collections.abc import Generator
from typing import Any, assert_never

from msgspec import Struct

from coterie.engines.generator import AgentFailed, Conversation, PatternFailed, Question, Together
from coterie.engines.patterns import structured
from coterie.engines.patterns.aggregation import Candidate, concat, vote, weighted
from coterie.engines.patterns.answers import normalise
from coterie.engines.patterns.registry import Calls, Team, pattern
from coterie.engines.patterns.result import PatternResult
from coterie.engines.patterns.sections import sections
from coterie.journal.records import TurnFinished
from coterie.patterns.builtin.talk import OPPONENT, PROPONENT, Argument, Talk, said
from coterie.planning.plan import Wanted
from coterie.topology.patterns.configs import DebateSettings
from coterie.topology.patterns.inputs import task_of
from coterie.topology.patterns.kinds import KINDS
from coterie.topology.patterns.slots import SIDES, mediator_of

_SECTIONS = ("summary", "evaluation", "verdict", "conclusion")
_CONCLUSION = (Wanted(name="conclusion", type="text"), Wanted(name="verdict", type="text", declared=False))
_WINNER = re.compile(r"\b(?:proponent|opponent|tie)\b")
_ANSWER = (Wanted(name="answer", type="text"), Wanted(name="confidence", type="number", declared=False))

_Deciding = Generator[Question | Together, Any, "DebateResult"]


class MediatorVerdict(Struct, frozen=True, kw_only=True):
    """The mediator's verdict on a transcript in which *first* begins each exchange.

    Attributes:
        conclusion: Its section of that name; empty without one.
        winner: `proponent`, `opponent` or `tie`; empty if not stated.
    """

    first: str
    text: str
    conclusion: str = ""
    winner: str = ""

    @property
    def answer(self) -> str:
        """The conclusion, or the mediator's whole text if there is none."""
        return self.conclusion or self.text


class DebateResult(PatternResult, frozen=True, kw_only=True):
    """The result of a debate.

    Attributes:
        rounds: The number of exchanges.
        synthesis: The mediator's text; empty when it was not called.
        conclusion: The answer; empty when the mediator names none, then *text* is its whole text.
        method: How it was decided: the consensus method, or `mediator` if no side agreed first.
        convergence: The lesser agreement of the two sides, from 0 to 1.
        winner: `proponent`, `opponent` or `tie`; empty if not stated.
        verdicts: The mediator's, one for each order of the sides; *consistent* if they are the same.
        votes: The answer of each voter, if there was a vote; *share*, *margin* and *tie* are those of the best answer.
    """

    question: str
    rounds: int
    debate_history: tuple[Argument, ...]
    synthesis: str = ""
    conclusion: str
    method: str
    convergence: float
    winner: str = ""
    verdicts: tuple[MediatorVerdict, ...] = ()
    consistent: bool = True
    votes: dict[str, str] = {}
    share: float | None = None
    margin: float | None = None
    tie: bool = False


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: each side has one per round, a voter one more; a deciding mediator has one per order of the
    sides.
    """
    config: DebateSettings = team.config
    votes = config.consensus_method in ("majority", "weighted", "unanimous")
    turns = dict.fromkeys(SIDES, config.max_rounds + votes)
    turns[mediator_of(config, team.slots)] = 2 if config.swap_verdict and not votes else 1
    return Calls(turns, turns)


@pattern(KINDS["debate"], calls=calls)
def debate(team: Team, given: dict[str, Any]) -> Conversation:
    """Argue until the sides agree or the rounds are used up, then decide."""
    config: DebateSettings = team.config
    talk = Talk(task_of(KINDS["debate"].keys, given), mediator_of(config, team.slots), config, team.version)
    yield from talk.speak(PROPONENT, 0)
    for round in range(1, config.max_rounds + 1):
        yield from talk.speak(OPPONENT, round)
        if talk.may_end():
            break
        if round < config.max_rounds:
            yield from talk.speak(PROPONENT, round)
            if talk.may_end():
                break
    match config.consensus_method:
        case "mediator":
            return (yield from _mediated(talk))
        case "first_agree":
            granted = talk.granted()
            if granted is None:
                return (yield from _mediated(talk))
            return _result(talk, granted.argument, "first_agree", winner=granted.role)
        case "majority" | "weighted" | "unanimous":
            return (yield from _voted(talk))
        case _:
            assert_never(config.consensus_method)


def _mediated(talk: Talk) -> _Deciding:
    """Let the mediator decide; with both orders of the sides, only a verdict that holds in both counts."""
    orders = SIDES if talk.config.swap_verdict else (PROPONENT,)
    replies = yield Together(*(Question(talk.mediator, _verdict_prompt(talk, first)) for first in orders))
    verdicts = tuple(_verdict(_got(reply), talk, first) for reply, first in zip(replies, orders, strict=True))
    one, details = verdicts[0], {"synthesis": verdicts[0].text, "verdicts": verdicts}
    if _same(one, verdicts[-1]):
        return _result(talk, one.answer, "mediator", conclusion=one.conclusion, winner=one.winner, **details)
    both = [f"[{verdict.first} first]: {verdict.answer}" for verdict in verdicts]
    text = "\n\n".join(["The verdict depends on which side is read first.", *both])
    warning = "the mediator decided otherwise when it read the other side first"
    return _result(talk, text, "mediator", winner="tie", tie=True, consistent=False, warnings=(warning,), **details)


def _voted(talk: Talk) -> _Deciding:
    """Let both sides and the mediator vote, and count the answers."""
    method, over = talk.config.consensus_method, "The debate is over, and no side is yours any more."
    asked = [talk.ask(side, f"{over} {_ballot(talk)}", _ANSWER) for side in SIDES]
    asked.append(Question(talk.mediator, f"{talk.transcript()}\n\n{_ballot(talk)}", fields=_ANSWER))
    replies = [_got(reply) for reply in (yield Together(*asked))]
    votes = [
        Candidate(question.agent, structured.answer(reply), structured.confidence(reply))
        for question, reply in zip(asked, replies, strict=True)
    ]
    if silent := [one.slot for one in votes if not one.text.strip()]:
        raise PatternFailed(f"{silent[0]} gave no vote")
    won = weighted(votes) if method == "weighted" else vote(votes)
    assert won.tally is not None
    details: dict[str, Any] = {
        "synthesis": replies[-1].text,
        "votes": {one.slot: one.text for one in votes},
        "share": won.tally.share,
        "margin": won.tally.margin,
        "tie": won.tie,
    }
    if method == "unanimous" and len(won.tally.clusters) > 1:
        text, warning = f"There is no unanimous answer.\n\n{concat(votes).text}", "there is no unanimous answer"
        return _result(talk, text, method, warnings=(warning,), **details)
    warnings = ("the votes are tied; the first answer counts",) if won.tie else ()
    return _result(talk, won.text, method, warnings=warnings, **details)


def _result(talk: Talk, text: str, method: str, **details: Any) -> DebateResult:
    """The result of *talk*; its conclusion is *text* unless *details* has one."""
    return DebateResult(
        text=text,
        question=talk.question,
        rounds=talk.rounds,
        debate_history=tuple(talk.turns),
        method=method,
        convergence=talk.convergence(),
        **{"conclusion": text, **details},
    )


def _verdict_prompt(talk: Talk, first: str) -> str:
    return (
        f"{talk.transcript(first)}\n\n"
        "You mediate. Weigh what was said, not the order in which it stands here. Write four sections, each beginning "
        "with its name:\n"
        "SUMMARY: the main arguments of each side\n"
        "EVALUATION: which points are the strongest, and why\n"
        f"VERDICT: {PROPONENT}, {OPPONENT} or tie\n"
        "CONCLUSION: your answer to the question, and why"
    )


def _ballot(talk: Talk) -> str:
    return (
        f"What is the right answer to this: {talk.question}\n\n"
        'Answer with JSON: {"answer": "in as few words as it takes", "confidence": from 0 to 1}.'
    )


def _verdict(reply: TurnFinished, talk: Talk, first: str) -> MediatorVerdict:
    text = said(reply, talk.mediator)
    found = (structured.parse(reply, _CONCLUSION) or {}) | sections(text, _SECTIONS)
    winners = set(_WINNER.findall(found.get("verdict", "").lower()))
    return MediatorVerdict(
        first=first,
        text=text,
        conclusion=found.get("conclusion", "").strip(),
        winner=winners.pop() if len(winners) == 1 else "",
    )


def _same(one: MediatorVerdict, other: MediatorVerdict) -> bool:
    if one.winner and other.winner:
        return one.winner == other.winner
    return normalise(one.answer) == normalise(other.answer)


def _got(reply: TurnFinished | AgentFailed) -> TurnFinished:
    if isinstance(reply, AgentFailed):
        raise reply
    return reply
