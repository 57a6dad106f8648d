"""Several members answer the same question, and their answers are combined.

All members are called at once, each `samples` times. In every further layer the members see the answers of the previous
one and may improve on them. Failed answers are tolerated up to a threshold.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, assert_never

from msgspec import Struct

from coterie.engines.generator import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.engines.patterns import structured
from coterie.engines.patterns.aggregation import Aggregate, Candidate, average, best_of, concat, needed, vote, weighted
from coterie.engines.patterns.diversity import spread
from coterie.engines.patterns.registry import Calls, Team, pattern
from coterie.engines.patterns.result import PatternResult, SlotFailure, failure, one_kind
from coterie.journal.records import TurnFinished
from coterie.planning.plan import Wanted
from coterie.topology.patterns.configs import EnsembleSettings
from coterie.topology.patterns.inputs import task_of
from coterie.topology.patterns.kinds import KINDS
from coterie.topology.patterns.slots import AGGREGATOR, members

_SURE = (Wanted(name="answer", type="text"), Wanted(name="confidence", type="number"))

_HOW_SURE = 'Answer with JSON: {"answer": "…", "confidence": from 0 to 1, how sure you are that it is right}.'

_Asking = Question | Together | Tell


class Individual(Struct, frozen=True, kw_only=True):
    """The answer of a member."""

    slot: str
    output: str
    confidence: float | None = None


class EnsembleResult(PatternResult, frozen=True, kw_only=True):
    """The result of an ensemble; all numbers are those of the last layer.

    Attributes:
        ensemble_size: Members times samples; those neither *successful* nor *failed* were not called.
        method: How the answers were combined.
        degraded: The answers are listed one after another, because the aggregator failed.
        votes: The votes for each answer, in the order of the first that gave it; *share*, *margin*, *tie* and *entropy*
            are those of the vote, *spread* the standard deviation of numbers. None without.
    """

    input: str
    ensemble_size: int
    successful: int
    failed: int
    individual_results: tuple[Individual, ...]
    aggregated_result: str
    method: str
    degraded: bool = False
    votes: dict[str, float] = {}
    share: float | None = None
    margin: float | None = None
    entropy: float | None = None
    spread: float | None = None
    tie: bool = False


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: each member answers `samples` times in each layer, an aggregator once."""
    config: EnsembleSettings = team.config
    turns = dict.fromkeys(members(team.slots), config.samples * config.layers)
    if _aggregates(team):
        turns[AGGREGATOR] = 1
    return Calls(turns, turns)


@pattern(KINDS["ensemble"], calls=calls)
def ensemble(team: Team, given: dict[str, Any]) -> Conversation:
    """Call the members layer by layer, then combine the answers of the last."""
    config: EnsembleSettings = team.config
    task = task_of(KINDS["ensemble"].keys, given)
    failures, answers = list[SlotFailure](), list[Candidate]()
    for layer in range(1, config.layers + 1):
        answers, failed = yield from _layer(team, _prompt(task, answers), layer)
        failures += failed
    made, degraded, warnings = yield from _aggregate(team, task, answers, failures)
    tally = made.tally
    return EnsembleResult(
        text=made.text,
        input=task,
        ensemble_size=len(_voices(team)),
        successful=len(answers),
        failed=len(failed),
        individual_results=tuple(
            Individual(slot=one.slot, output=one.text, confidence=one.confidence) for one in answers
        ),
        aggregated_result=made.text,
        method=config.aggregation_method,
        degraded=degraded,
        votes={found.text: count for found, count in zip(tally.clusters, tally.votes, strict=True)} if tally else {},
        share=tally.share if tally else None,
        margin=tally.margin if tally else None,
        entropy=tally.entropy if tally else None,
        spread=made.spread,
        tie=made.tie,
        failures=tuple(failures),
        warnings=warnings,
    )


def _layer(team: Team, prompt: str, layer: int) -> Generator[_Asking, Any, tuple[list[Candidate], list[SlotFailure]]]:
    """The answers of one layer, in the order asked; in the last layer, no more than the vote needs."""
    config: EnsembleSettings = team.config
    voices, last = _voices(team), layer == config.layers
    answers, failed = list[Candidate](), list[SlotFailure]()
    while left := voices[len(answers) + len(failed) :]:
        many = _needed(config, answers, left) if last and config.stop_when_decided else len(left)
        if not many:
            break
        asked = [
            Question(slot, f"{prompt}\n\n{_HOW_SURE}", fields=_SURE)
            if last and _weighs(config, slot)
            else Question(slot, prompt)
            for slot in left[:many]
        ]
        for question, got in zip(asked, (yield Together(*asked, most=config.max_concurrency)), strict=True):
            match _answer(question.agent, got):
                case SlotFailure() as fault:
                    failed.append(fault)
                case Candidate() as answer:
                    answers.append(answer)
                    said = {"content": answer.text, "confidence": answer.confidence}
                    yield Tell(answer.slot, AGGREGATOR if _aggregates(team) else None, "response", said, layer)
    if not answers or len(failed) / len(voices) > config.failure_threshold:
        reasons = "; ".join(dict.fromkeys(f"{one.slot}: {one.reason}" for one in failed))
        raise PatternFailed(f"Too many ensemble failures: {len(failed)}/{len(voices)} ({reasons})", one_kind(failed))
    return answers, failed


def _aggregate(
    team: Team, task: str, answers: Sequence[Candidate], failures: list[SlotFailure]
) -> Generator[_Asking, Any, tuple[Aggregate, bool, tuple[str, ...]]]:
    """The combined answer, whether it is degraded, and warnings."""
    config: EnsembleSettings = team.config
    match config.aggregation_method:
        case "vote":
            made = vote(answers)
        case "weighted":
            made = weighted(answers, config.weights, config.accuracy)
        case "average":
            made = _mean(answers, config)
        case "best_of":
            made = best_of(answers, config.accuracy)
        case "concat":
            made = concat(answers)
        case "synthesis" if not _aggregates(team):
            return concat(answers), False, ("there is no aggregator: the answers are concatenated",)
        case "synthesis":
            try:
                reply = yield Question(AGGREGATOR, _synthesis(task, spread(answers, config.diversity_weight)))
                if reply.text.strip():
                    return Aggregate(reply.text, AGGREGATOR), False, ()
                failures.append(SlotFailure(AGGREGATOR, "empty", "it said nothing"))
            except AgentFailed as failed:
                failures.append(failure(AGGREGATOR, failed))
            return concat(answers), True, ("the aggregator failed: the answers are concatenated",)
        case _:
            assert_never(config.aggregation_method)
    return made, False, tuple(_remarks(made))


def _mean(answers: Sequence[Candidate], config: EnsembleSettings) -> Aggregate:
    made = average(answers, config.average)
    if made is None:
        shown = "; ".join(f"{one.slot}: {one.text[:60]}" for one in answers)
        raise PatternFailed(f"no answer is a number to average ({shown})")
    return made


def _remarks(made: Aggregate) -> Iterator[str]:
    if made.tie:
        yield "several answers are tied; the first one counts"
    if made.left_out:
        yield f"not numbers, and not counted: the answers of {', '.join(made.left_out)}"


def _voices(team: Team) -> tuple[str, ...]:
    """The slots in calling order: every member once, then every member again."""
    config: EnsembleSettings = team.config
    return members(team.slots) * config.samples


def _needed(config: EnsembleSettings, answers: Sequence[Candidate], left: Sequence[str]) -> int:
    if config.aggregation_method == "weighted":
        return needed(answers, left, config.weights, config.accuracy)
    return needed(answers, left)


def _aggregates(team: Team) -> bool:
    config: EnsembleSettings = team.config
    return config.aggregation_method == "synthesis" and AGGREGATOR in team.slots


def _weighs(config: EnsembleSettings, slot: str) -> bool:
    """Whether the confidence of *slot* affects the result."""
    if slot in config.accuracy:
        return False
    method = config.aggregation_method
    return method == "best_of" or (method == "weighted" and config.weights != "uniform")


def _answer(slot: str, got: TurnFinished | AgentFailed) -> Candidate | SlotFailure:
    if isinstance(got, AgentFailed):
        return failure(slot, got)
    answer = structured.answer(got)
    if not answer.strip():
        return SlotFailure(slot, "empty", "it said nothing")
    return Candidate(slot, answer, structured.confidence(got))


def _prompt(task: str, before: Sequence[Candidate]) -> str:
    """The task, and all answers of the previous layer."""
    if not before:
        return task
    intro = "Others have answered this. Their answers may be wrong, or each right in part:"
    wanted = "Give your own answer, better than any of these."
    return "\n\n".join([task, intro, *_numbered(before), wanted])


def _synthesis(task: str, answers: Sequence[Candidate]) -> str:
    intro = "This was asked:"
    wanted = "Make one answer of these: keep what is best in each, settle what they contradict each other in."
    return "\n\n".join([intro, task, "These are the answers:", *_numbered(answers), wanted])


def _numbered(answers: Sequence[Candidate]) -> list[str]:
    return [f"Answer {n}:\n{one.text}" for n, one in enumerate(answers, 1)]
