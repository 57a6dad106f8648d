"""Two sides argue, then a mediator or a vote decides.

The proponent opens; in each round the opponent answers and, except in the last round, the proponent replies. A side
that fails ends the debate: half a debate has no meaningful verdict.

Each side sees the debate as a separate chat that begins with its instructions: a chat never opens with a message of the
assistant, and each question only adds to it.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, assert_never

from msgspec import Struct

from coterie.history.engines.patterns import structured
from coterie.history.engines.patterns.aggregation import Candidate, concat, vote, weighted
from coterie.history.engines.patterns.answers import normalise
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult
from coterie.history.engines.patterns.sections import sections
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.history.journal.records import TurnFinished
from coterie.patterns.builtin.stance import agreement
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Consensus, Idle, Share, UpToTen, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of
from coterie.team.topology.patterns.kinds import PatternSpec

SIDES = PROPONENT, OPPONENT = "proponent", "opponent"
MEDIATOR = "mediator"
OTHER = {PROPONENT: OPPONENT, OPPONENT: PROPONENT}
_STANDS = {PROPONENT: "in favour of it", OPPONENT: "against it"}


class DebateSettings(Config, frozen=True, kw_only=True):
    """Length of a debate, and who decides it.

    Attributes:
        max_rounds: Exchanges at most; in each the opponent answers the proponent.
        consensus_method: `mediator`: the mediator decides; `majority`, `weighted` and `unanimous`: both sides and the
            mediator vote; `first_agree`: the argument that the other side first agrees with, else the mediator.
        convergence_threshold: How sure both sides must agree for the debate to end early.
        allow_early_termination: Whether the debate may end early.
        mediator_agent_name: The agent that fills the slot `mediator`, when no slot has that name.
        min_rounds: Exchanges before the debate may end early.
        swap_verdict: Request the verdict twice, with the sides in both orders; differing ones are inconsistent.
    """

    max_rounds: UpToTen = 3
    consensus_method: Consensus = "mediator"
    convergence_threshold: Share = 0.8
    allow_early_termination: bool = True
    mediator_agent_name: str | None = None

    min_rounds: UpToTen = 1
    swap_verdict: bool = False

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that a debate has two sides and a mediator."""
        mediator = mediator_of(self, names)
        for side in SIDES:
            if side not in names:
                yield faults.missing(f"Debate requires '{side}' slot", side, names)
        if not mediator:
            named = self.mediator_agent_name
            if named is not None:
                yield faults.no_such("config.mediator_agent_name", named, names)
            yield faults.missing("Debate requires 'mediator' slot", MEDIATOR, names)
        yield from faults.foreign("Debate", names, (*SIDES, MEDIATOR, *([mediator] if mediator else [])))
        if self.min_rounds > self.max_rounds:
            message = f"min_rounds is {self.min_rounds}, and max_rounds {self.max_rounds}"
            yield Fault("bad-config", message, "config.min_rounds")

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        decides = self.consensus_method
        votes = decides not in ("mediator", "first_agree")
        named = self.mediator_agent_name not in (None, MEDIATOR)
        runs_on, why = not self.allow_early_termination, "allow_early_termination is false"
        voted = f"consensus_method is {decides}, so a vote replaces the verdict"
        yield self.swap_verdict and votes, "swap_verdict", voted
        yield named and MEDIATOR in names, "mediator_agent_name", "there is a slot `mediator`"
        yield runs_on and "min_rounds" in written, "min_rounds", why
        threshold = "convergence_threshold"
        yield runs_on and threshold in written and decides != "first_agree", threshold, why

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        one, other = SIDES
        yield arrow(one, (other,))
        if self.max_rounds > 1:
            yield arrow(other, (one,), self.max_rounds - 1)
        yield arrow(other, (mediator_of(self, names),))

    def idle_stop(self, names: Sequence[str]) -> str:
        """The reason why a debate of one round, or of a fixed number, cannot end early; empty if it can."""
        if not self.allow_early_termination:
            return ""
        if self.max_rounds == 1:
            return "there is one round"
        fixed = f"there are at least {self.min_rounds} rounds, and at most as many"
        return fixed if self.min_rounds >= self.max_rounds else ""


def mediator_of(config: DebateSettings, names: Sequence[str]) -> str:
    """The mediator's slot: `mediator`, else the one the configuration names; empty without one."""
    named = config.mediator_agent_name
    return MEDIATOR if MEDIATOR in names else named if named is not None and named in names else ""


_SECTIONS = ("summary", "evaluation", "verdict", "conclusion")
_CONCLUSION = (Wanted(name="conclusion", type="text"), Wanted(name="verdict", type="text", declared=False))
_WINNER = re.compile(r"\b(?:proponent|opponent|tie)\b")
_ANSWER = (Wanted(name="answer", type="text"), Wanted(name="confidence", type="number", declared=False))

_Deciding = Generator[Question | Together, Any, "DebateResult"]


class Argument(Struct, frozen=True, kw_only=True):
    """An argument of a side, and its agreement with the other side, from 0 to 1; None for the opening."""

    role: str
    argument: str
    round: int
    agreement: float | None = None


class DebateState:
    """A debate in progress.

    Args:
        adds_up: Whether the agreements of the sides are added up.

    Attributes:
        mediator: The slot that mediates.
        turns: The arguments, in order.
    """

    def __init__(self, question: str, mediator: str, config: DebateSettings, adds_up: bool) -> None:
        self.question, self.mediator, self.config, self._adds_up = question, mediator, config, adds_up
        self.turns: list[Argument] = []
        self._chats: dict[str, list[tuple[str, str]]] = {side: [] for side in SIDES}

    @property
    def rounds(self) -> int:
        """The number of complete exchanges."""
        return len(self.turns) // 2

    def speak(self, side: str, round: int) -> Generator[Question | Tell, Any, None]:
        """Ask *side* for its next argument, and record messages to the other two."""
        question = self.ask(side, self._instruction(side))
        reply = yield question
        agrees = agreement(reply) if self.turns else None
        self.turns.append(Argument(role=side, argument=said(reply, side), round=round, agreement=agrees))
        self._chats[side] += [("user", question.prompt), ("assistant", _labelled(self.turns[-1]))]
        for other in (OTHER[side], self.mediator):
            yield Tell(side, other, "broadcast", {"argument": self.turns[-1].argument}, round)

    def ask(self, side: str, instruction: str, fields: Sequence[Wanted] = ()) -> Question:
        """A question to *side*, after the arguments that it has not seen yet."""
        parts = [] if self._chats[side] else [f"A debate on: {self.question}", f"You argue {_STANDS[side]}."]
        if self.turns and self.turns[-1].role != side:
            parts.append(_labelled(self.turns[-1]))
        return Question(side, "\n\n".join([*parts, instruction]), fields=fields, history=self._chats[side])

    def convergence(self) -> float:
        """The lesser of the two agreements that the sides stated last; 0 while the proponent has only opened."""
        latest = {turn.role: turn.agreement or 0.0 for turn in self.turns}
        return min(1.0, round(sum(latest.values()), 9)) if self._adds_up else min(latest.values())

    def may_end(self) -> bool:
        """Whether both sides agree enough to end the debate now."""
        config = self.config
        if not config.allow_early_termination or self.rounds < config.min_rounds:
            return False
        granted = config.consensus_method == "first_agree" and self.granted() is not None
        return granted or self.convergence() >= config.convergence_threshold

    def granted(self) -> Argument | None:
        """The first argument that the other side agreed with, at least to the threshold."""
        for before, turn in zip(self.turns, self.turns[1:], strict=False):
            if (turn.agreement or 0.0) >= self.config.convergence_threshold:
                return before
        return None

    def transcript(self, first: str = PROPONENT) -> str:
        """The question and all arguments; *first* is the side that begins each exchange."""
        turns = self.turns
        if first == OPPONENT:
            turns = [turn for n in range(0, len(turns), 2) for turn in reversed(turns[n : n + 2])]
        return "\n\n".join([f"A debate on: {self.question}", "This was said:", *map(_labelled, turns)])

    def _instruction(self, side: str) -> str:
        if not self.turns:
            return "Open the debate: make your case."
        answer = f"Answer this, still {_STANDS[side]}."
        if self.config.allow_early_termination or self.config.consensus_method == "first_agree":
            answer += " End with a line `agreement: X`: from 0 to 1, how far you now agree with the other side."
        return answer


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


@called_as("debate(proponent=…, opponent=…, mediator=…)")
def debate(
    *, proponent: Filler, opponent: Filler, mediator: Filler, name: str = "debate", description: str = "", **config: Any
) -> Topology:
    """Two sides argue, a mediator decides; the input is a `question`.

    Args:
        config: Fields of `DebateConfig`: `max_rounds`, `consensus_method`, …

    Raises:
        TopologyError: If an argument does not fit, as for all functions here; it carries all faults.
    """
    slots = {"proponent": proponent, "opponent": opponent, "mediator": mediator}
    return make_team("debate", slots, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: each side has one per round, a voter one more.

    A deciding mediator has one per order of the sides.
    """
    config: DebateSettings = team.config
    votes = config.consensus_method in ("majority", "weighted", "unanimous")
    turns = dict.fromkeys(SIDES, config.max_rounds + votes)
    turns[mediator_of(config, team.slots)] = 2 if config.swap_verdict and not votes else 1
    return Calls(turns, turns)


SPEC = PatternSpec(
    "debate",
    "Debate",
    DebateSettings,
    "Two sides argue, a mediator decides.",
    keys=("question", "topic"),
    results=(DebateResult,),
    roles={"proponent": "critic", "opponent": "critic", "mediator": "synthesizer"},
    required=(*SIDES, MEDIATOR),
    named_slot=("mediator_agent_name", MEDIATOR),
    stops_early="allow_early_termination",
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
    """Argue until the sides agree or the rounds are used up, then decide."""
    config: DebateSettings = team.config
    state = DebateState(task_of(SPEC.keys, given), mediator_of(config, team.slots), config, team.rules.adds_up)
    yield from state.speak(PROPONENT, 0)
    for round in range(1, config.max_rounds + 1):
        yield from state.speak(OPPONENT, round)
        if state.may_end():
            break
        if round < config.max_rounds:
            yield from state.speak(PROPONENT, round)
            if state.may_end():
                break
    match config.consensus_method:
        case "mediator":
            return (yield from _mediated(state))
        case "first_agree":
            granted = state.granted()
            if granted is None:
                return (yield from _mediated(state))
            return _result(state, granted.argument, "first_agree", winner=granted.role)
        case "majority" | "weighted" | "unanimous":
            return (yield from _voted(state))
        case _:
            assert_never(config.consensus_method)


def _mediated(state: DebateState) -> _Deciding:
    """Let the mediator decide; with both orders of the sides, only a verdict that holds in both counts."""
    orders = SIDES if state.config.swap_verdict else (PROPONENT,)
    replies = yield Together(*(Question(state.mediator, _verdict_prompt(state, first)) for first in orders))
    verdicts = tuple(_verdict(_got(reply), state, first) for reply, first in zip(replies, orders, strict=True))
    one, details = verdicts[0], {"synthesis": verdicts[0].text, "verdicts": verdicts}
    if _same(one, verdicts[-1]):
        return _result(state, one.answer, "mediator", conclusion=one.conclusion, winner=one.winner, **details)
    both = [f"[{verdict.first} first]: {verdict.answer}" for verdict in verdicts]
    text = "\n\n".join(["The verdict depends on which side is read first.", *both])
    warning = "the mediator decided otherwise when it read the other side first"
    return _result(state, text, "mediator", winner="tie", tie=True, consistent=False, warnings=(warning,), **details)


def _voted(state: DebateState) -> _Deciding:
    """Let both sides and the mediator vote, and count the answers."""
    method, over = state.config.consensus_method, "The debate is over, and no side is yours any more."
    asked = [state.ask(side, f"{over} {_ballot(state)}", _ANSWER) for side in SIDES]
    asked.append(Question(state.mediator, f"{state.transcript()}\n\n{_ballot(state)}", fields=_ANSWER))
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
        return _result(state, text, method, warnings=(warning,), **details)
    warnings = ("the votes are tied; the first answer counts",) if won.tie else ()
    return _result(state, won.text, method, warnings=warnings, **details)


def _result(state: DebateState, text: str, method: str, **details: Any) -> DebateResult:
    """The result of *state*; its conclusion is *text* unless *details* has one."""
    return DebateResult(
        text=text,
        question=state.question,
        rounds=state.rounds,
        debate_history=tuple(state.turns),
        method=method,
        convergence=state.convergence(),
        **{"conclusion": text, **details},
    )


def _verdict_prompt(state: DebateState, first: str) -> str:
    return (
        f"{state.transcript(first)}\n\n"
        "You mediate. Weigh what was said, not the order in which it stands here. Write four sections, each beginning "
        "with its name:\n"
        "SUMMARY: the main arguments of each side\n"
        "EVALUATION: which points are the strongest, and why\n"
        f"VERDICT: {PROPONENT}, {OPPONENT} or tie\n"
        "CONCLUSION: your answer to the question, and why"
    )


def _ballot(state: DebateState) -> str:
    return (
        f"What is the right answer to this: {state.question}\n\n"
        'Answer with JSON: {"answer": "in as few words as it takes", "confidence": from 0 to 1}.'
    )


def _verdict(reply: TurnFinished, state: DebateState, first: str) -> MediatorVerdict:
    text = said(reply, state.mediator)
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


def said(reply: TurnFinished, slot: str) -> str:
    """The argument of *slot* without the label of the transcript.

    Raises:
        PatternFailed: If it is empty.
    """
    text = reply.text.strip().removeprefix(_label(slot)).strip()
    if not text:
        raise PatternFailed(f"{slot} gave an empty answer ({reply.turn})")
    return text


def _labelled(turn: Argument) -> str:
    return f"{_label(turn.role)} {turn.argument}"


def _label(slot: str) -> str:
    return f"[{slot.title()}]:"
