"""Several members answer the same question, and their answers are combined.

All members are called at once, each `samples` times. In every further layer the members see the answers of the previous
one and may improve on them. Failed answers are tolerated up to a threshold.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, assert_never

from msgspec import Meta, Struct

from coterie.base.diagnostics import Severity
from coterie.history.engines.patterns import structured
from coterie.history.engines.patterns.aggregation import (
    Aggregate,
    Candidate,
    average,
    best_of,
    concat,
    needed,
    vote,
    weighted,
)
from coterie.history.engines.patterns.diversity import spread
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, SlotFailure, failure, one_kind
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.history.journal.records import TurnFinished
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import (
    Aggregation,
    Config,
    Idle,
    Positive,
    Probability,
    Share,
    UpToTen,
    Weights,
    arrow,
)
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of
from coterie.team.topology.patterns.kinds import PatternSpec

AGGREGATOR = "aggregator"


class EnsembleSettings(Config, frozen=True, kw_only=True):
    """How several answers are combined into one.

    Attributes:
        aggregation_method: `vote`: the most frequent answer; `weighted`: the one with the most weight; `average`:
            the mean of the numbers; `best_of`: the most confident answer; `concat`: all, one after another;
            `synthesis`: the answer of the slot `aggregator`.
        diversity_weight: How strongly the order of answers shown to the aggregator favours different ones.
        failure_threshold: The largest share of members that may fail.
        samples: Calls per member.
        layers: Rounds of a mixture of agents: from the second on, each member sees the previous round's answers.
        stop_when_decided: Call no further member once the rest could not change the vote.
        weights: Weight of a confidence: `log_odds` is correct for independent voters, `linear` is the confidence
            itself, `uniform` ignores it.
        accuracy: Measured accuracy of each slot; used instead of the confidence it reports.
        average: `mean`, `median`, or `trimmed` (the mean without the outer fifths).
        max_concurrency: Maximum members called at once; None: unlimited.
    """

    aggregation_method: Aggregation = "synthesis"
    diversity_weight: Share = 0.3
    failure_threshold: Share = 0.5

    samples: Annotated[int, Meta(ge=1, le=100)] = 1
    layers: UpToTen = 1
    stop_when_decided: bool = False
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = {}
    average: Literal["mean", "median", "trimmed"] = "mean"
    max_concurrency: Positive | None = None

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that the slots of an ensemble are members, with an aggregator only if it is called."""
        found = members(names)
        if not found:
            message = "Ensemble requires at least one ensemble agent"
            yield Fault("missing-slot", message, "slots", hint="add `ensemble_0`")
        yield from faults.foreign("Ensemble", names, (*found, AGGREGATOR))
        yield from faults.strangers("config.accuracy", self.accuracy, found)
        if AGGREGATOR in names and self.aggregation_method != "synthesis":
            message = f"the slot 'aggregator' is never called: aggregation_method is {self.aggregation_method}"
            yield Fault("spare-slot", message, f"slots.{AGGREGATOR}", Severity.WARNING)
        if self.stop_when_decided and self.aggregation_method not in ("vote", "weighted"):
            message = f"stop_when_decided needs a vote, but aggregation_method is {self.aggregation_method!r}"
            yield Fault("bad-config", message, "config.stop_when_decided", hint="use vote or weighted")

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        method = self.aggregation_method
        uniform = method == "weighted" and self.weights == "uniform"
        unread = method != "synthesis" or AGGREGATOR not in names
        yield method != "weighted" and "weights" in written, "weights", "aggregation_method is not weighted"
        why = "weights are uniform" if uniform else "aggregation_method is neither weighted nor best_of"
        yield bool(self.accuracy) and (uniform or method not in ("weighted", "best_of")), "accuracy", why
        yield method != "average" and "average" in written, "average", "aggregation_method is not average"
        why = "there is no aggregator to read the answers"
        yield unread and "diversity_weight" in written, "diversity_weight", why

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        if self.aggregation_method == "synthesis":
            for name in members(names):
                yield arrow(name, (AGGREGATOR,))

    def idle_stop(self, names: Sequence[str]) -> str:
        """The last of fewer than three answers may decide."""
        idle = self.stop_when_decided and len(members(names)) * self.samples < 3
        return "the last of fewer than three answers can still change the vote" if idle else ""


def members(names: Sequence[str]) -> tuple[str, ...]:
    """The members of an ensemble: the slots that begin with `ensemble`, else all but `aggregator`."""
    named = tuple(name for name in names if name.startswith("ensemble"))
    return named or tuple(name for name in names if name != AGGREGATOR)


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


@called_as("ensemble(MEMBER, MEMBER, …)")
def ensemble(
    *members: Filler, aggregator: Filler | None = None, name: str = "ensemble", description: str = "", **config: Any
) -> Topology:
    """Several members answer the same `prompt`, and their answers are combined.

    Args:
        members: In the order in which their answers count; their slots are `ensemble_0`, `ensemble_1`, …
        aggregator: Combines the answers, for methods that do not count votes.
        config: Fields of `EnsembleConfig`: `aggregation_method`, `samples`, …
    """
    slots: dict[str, Filler] = {f"ensemble_{n}": member for n, member in enumerate(members)}
    if aggregator is not None:
        slots["aggregator"] = aggregator
    return make_team("ensemble", slots, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: each member answers `samples` times in each layer, an aggregator once."""
    config: EnsembleSettings = team.config
    turns = dict.fromkeys(members(team.slots), config.samples * config.layers)
    if _aggregates(team):
        turns[AGGREGATOR] = 1
    return Calls(turns, turns)


SPEC = PatternSpec(
    "ensemble",
    "Ensemble",
    EnsembleSettings,
    "Several members answer independently, and their answers are combined.",
    keys=("prompt",),
    results=(EnsembleResult,),
    roles={"ensemble": "specialist", AGGREGATOR: "synthesizer"},
    stops_early="stop_when_decided",
    python_hints={"add `ensemble_0`": "pass its members one by one"},
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
    """Call the members layer by layer, then combine the answers of the last."""
    config: EnsembleSettings = team.config
    task = task_of(SPEC.keys, given)
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
        weighing = (config.weights, config.accuracy) if config.aggregation_method == "weighted" else ()
        many = needed(answers, left, *weighing) if last and config.stop_when_decided else len(left)
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
