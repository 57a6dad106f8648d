"""A primary answers, checkers judge the answer independently, and their verdicts decide whether it is approved.

An input that holds a question and its answer has that answer checked.

No checker sees another's verdict. A checker that fails, or gives no valid verdict after a second request, abstains. A
rejected answer may go back to the primary with all issues, and is then checked again.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, structs

from coterie.history.engines.patterns.consensus import CheckVerdict, ConsensusResult, ConsensusRules, decide, needed
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, SlotFailure, failure, one_kind
from coterie.history.engines.patterns.structured import REPAIRS, Answered, ask, ask_all, confidence
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.history.journal.records import TurnFinished
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Consensus, Idle, Positive, Probability, Weights, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of
from coterie.team.topology.patterns.kinds import PatternSpec

PRIMARY, CHECKER, MEDIATOR = "primary", "checker", "mediator"
TWO_CHECKERS = "add checker_0 and checker_1, or one `checker`, which is called num_checkers times"


class CrossCheckSettings(Config, frozen=True, kw_only=True):
    """Checkers of an answer, and how their verdicts are combined.

    Attributes:
        num_checkers: How often a single slot named `checker` is called, each time independently.
        consensus_method: `majority`: more approve than reject; `unanimous`: none rejects; `weighted`: the approvals
            weigh more; `mediator`: the slot `mediator` decides; `first_agree`: the first side with a quorum.
        require_unanimous_for_approval: A single rejection rejects, whatever the method.
        checker_specializations: The i-th is added to the prompt of checker i.
        quorum: Required number of verdicts; a checker that fails abstains.
        weights: Weight of a confidence with the method `weighted`, as in an ensemble.
        accuracy: Measured accuracy of each slot; used instead of the confidence it reports.
        max_revisions: How often a rejected answer goes back to the primary, with the issues, and is checked again.
        stop_when_decided: Call no further checker once the rest could not change the decision.
        max_concurrency: Maximum checkers called at once; None: unlimited.
    """

    checks_answers: ClassVar[bool] = True

    num_checkers: Annotated[int, Meta(ge=2, le=10)] = 3
    consensus_method: Consensus = "majority"
    require_unanimous_for_approval: bool = False
    checker_specializations: tuple[str, ...] = ()

    quorum: Positive = 2
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = {}
    max_revisions: Annotated[int, Meta(ge=0, le=10)] = 0
    stop_when_decided: bool = False
    max_concurrency: Positive | None = None

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that a cross-check has a primary and at least two checkers, or one that is called several times."""
        found = checkers(self, names)
        if PRIMARY not in names:
            yield faults.missing("Cross-check requires 'primary' agent", PRIMARY, names)
        if len(found) < 2:
            yield Fault("missing-slot", "Cross-check requires at least 2 checkers", "slots", hint=TWO_CHECKERS)
        elif self.quorum > len(found):
            message = f"quorum is {self.quorum}, but there are {len(found)} checkers"
            yield Fault("bad-config", message, "config.quorum")
        mediates = self.consensus_method == "mediator"
        if mediates and MEDIATOR not in names:
            yield faults.missing("Cross-check by a mediator requires 'mediator' slot", MEDIATOR, names)
        yield from faults.foreign("Cross-check", names, (PRIMARY, *found, *([MEDIATOR] if mediates else [])))
        yield from faults.strangers("config.accuracy", self.accuracy, found)
        if len(self.checker_specializations) > len(found) >= 2:
            message = f"there are {len(self.checker_specializations)} specializations for {len(found)} checkers"
            yield Fault("bad-config", message, "config.checker_specializations")

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        method = self.consensus_method
        weighted, rejects = method == "weighted", self.require_unanimous_for_approval
        why = "weights are uniform" if weighted else "consensus_method is not weighted"
        yield bool(self.accuracy) and not (weighted and self.weights != "uniform"), "accuracy", why
        why = "consensus_method is unanimous"
        yield rejects and method == "unanimous", "require_unanimous_for_approval", why
        why = "the mediator reads all verdicts before it decides"
        yield self.stop_when_decided and method == "mediator", "stop_when_decided", why
        single = set(checkers(self, names)) == {CHECKER}
        why = "it applies only to a single slot named `checker`"
        yield not single and "num_checkers" in written, "num_checkers", why
        yield not weighted and "weights" in written, "weights", "consensus_method is not weighted"

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        voices = tuple(dict.fromkeys(checkers(self, names)))
        yield arrow(PRIMARY, voices)
        for name in voices:
            yield arrow(name, (MEDIATOR,))
            if self.max_revisions:
                yield arrow(name, (PRIMARY,), self.max_revisions, "rejected")

    def idle_stop(self, names: Sequence[str]) -> str:
        """The last of fewer than three verdicts may decide."""
        idle = self.stop_when_decided and len(checkers(self, names)) < 3
        return "the last of fewer than three verdicts can still change the decision" if idle else ""


def checkers(config: CrossCheckSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The checkers' slots in order; a single slot named `checker` is repeated as often as it is called."""
    found = tuple(name for name in names if name.startswith(CHECKER))
    return (CHECKER,) * config.num_checkers if found == (CHECKER,) else found


_FIELDS = (
    Wanted(name="approved", type="boolean"),
    Wanted(name="confidence", type="number", declared=False),
    Wanted(name="issues", type="list", declared=False),
    Wanted(name="feedback", type="text", declared=False),
)
_JSON = (
    'Answer with JSON: {"approved": true or false, "confidence": from 0 to 1, "issues": ["what is wrong", …], '
    '"feedback": "…"}.'
)

_Asking = Question | Together | Tell


class CrossCheckResult(PatternResult, frozen=True, kw_only=True):
    """The result of a cross-check; verdicts are those on the latest answer.

    Attributes:
        primary_output: The latest answer, of the primary or given, approved or not.
        checkers: The number of checkers; *asked*: how many were called before the decision was known.
        approvals, rejections: The number of verdicts of each kind.
        revisions: The number of revisions by the primary.
    """

    prompt: str
    primary_output: str
    checkers: int
    asked: int
    approvals: int
    rejections: int
    approval_details: tuple[dict[str, Any], ...]
    rejection_details: tuple[dict[str, Any], ...]
    consensus: ConsensusResult
    final_approved: bool
    revisions: int = 0


@called_as("cross_check(PRIMARY, CHECKER, …)")
def cross_check(
    primary: Filler,
    /,
    *checkers: Filler,
    mediator: Filler | None = None,
    name: str = "crosscheck",
    description: str = "",
    **config: Any,
) -> Topology:
    """A primary answers a `prompt`, checkers judge the answer.

    Args:
        checkers: Their slots are `checker_0`, `checker_1`, …; a single one is called `num_checkers` times.
        mediator: Decides, with `consensus_method="mediator"`.
        config: Fields of `CrossCheckConfig`: `consensus_method`, `max_revisions`, …
    """
    slots: dict[str, Filler] = {"primary": primary}
    slots |= {"checker": checkers[0]} if len(checkers) == 1 else {f"checker_{n}": one for n, one in enumerate(checkers)}
    if mediator is not None:
        slots["mediator"] = mediator
    return make_team("crosscheck", slots, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: primary, checkers and mediator answer once.

    At most, each verdict takes two turns after each revision.

    Args:
        answered: The input holds the answer, so the primary usually has no turn.
    """
    config: CrossCheckSettings = team.config
    found = checkers(config, team.slots)
    judges = {slot: found.count(slot) for slot in found}
    if config.consensus_method == "mediator":
        judges[MEDIATOR] = 1
    checks, twice = 1 + config.max_revisions, 1 + REPAIRS
    return Calls(
        usual={PRIMARY: int(not numbers.get("answered")), **judges},
        most={PRIMARY: checks, **{slot: turns * checks * twice for slot, turns in judges.items()}},
    )


SPEC = PatternSpec(
    "crosscheck",
    "Cross-check",
    CrossCheckSettings,
    "A primary answers, others check the answer.",
    keys=("prompt",),
    results=(CrossCheckResult,),
    roles={CHECKER: "reviewer", MEDIATOR: "synthesizer"},
    stops_early="stop_when_decided",
    python_hints={TWO_CHECKERS: "pass two checkers, or one, which is called num_checkers times"},
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
    """Answer, check, and revise a rejected answer up to the allowed number of times.

    An input with an `answer` and a `question` gets that answer checked: the primary is only called for revisions.
    """
    config: CrossCheckSettings = team.config
    question, output = (task_of((key,), {key: given.get(key)}) for key in ("question", "answer"))
    if not (question and output) or not team.rules.takes_answer:
        question, output = task_of(SPEC.keys, given), ""
    review = CheckedAnswer(question, config, checkers(config, team.slots))
    if not output:
        answer: TurnFinished = yield Question(PRIMARY, review.task)
        output = answer.text
    yield from review.check(output)
    while review.rejected and review.revisions < config.max_revisions:
        try:
            revised = yield review.revision()
        except AgentFailed as failed:
            review.failures.append(failure(PRIMARY, failed))
            break
        review.revisions += 1
        yield from review.check(revised.text)
    return review.result()


class CheckedAnswer:
    """The latest answer of the primary, and its verdicts."""

    def __init__(self, task: str, config: CrossCheckSettings, voices: tuple[str, ...]) -> None:
        self.task, self.config, self.voices = task, config, voices
        self._rules = ConsensusRules(
            config.consensus_method,
            config.quorum,
            config.require_unanimous_for_approval,
            config.weights,
            config.accuracy,
        )
        self.output, self.revisions = "", 0
        self.verdicts: list[CheckVerdict] = []
        self.mediated: CheckVerdict | None = None
        self.failures: list[SlotFailure] = []

    @property
    def decision(self) -> ConsensusResult:
        """The decision of the verdicts."""
        return decide(self.verdicts, self._rules, self.mediated)

    @property
    def rejected(self) -> bool:
        """Whether there is a rejection; too few verdicts alone are none."""
        return not self.decision.approved and bool(self._against)

    def check(self, answer: str) -> Generator[_Asking, Any, None]:
        """Check *answer* with all checkers, or with as many as the decision needs."""
        self.output, self.verdicts = answer, []
        if not self.output.strip():
            raise PatternFailed(f"{PRIMARY} said nothing: there is nothing to check")
        while left := self.voices[len(self.verdicts) :]:
            many = self._needed(left) if self.config.stop_when_decided else len(left)
            if not many:
                break
            yield from self._hear(left[:many])
        if not self._heard:
            reasons = "; ".join(dict.fromkeys(f"{one.slot}: {one.reason}" for one in self.failures))
            raise PatternFailed(f"No checker gave a verdict ({reasons})", one_kind(self.failures))
        if self.config.consensus_method == "mediator":
            yield from self._mediate()

    def revision(self) -> Question:
        """The request to the primary for a better answer, in the chat of its answer."""
        said = [f"- {issue}" for issue in self.decision.issues]
        said += [f"- {one.feedback}" for one in self._against if one.feedback.strip()]
        found = "\n".join(dict.fromkeys(said)) or "- nobody said what"
        demand = f"Your answer was checked and not approved. This was found wrong:\n\n{found}\n\nAnswer again, whole."
        return Question(PRIMARY, demand, history=(("user", self.task), ("assistant", self.output)))

    def result(self) -> CrossCheckResult:
        """The result of the whole cross-check."""
        decision = self.decision
        approving = [one for one in self.verdicts if one.approved is True]
        rejecting = [one for one in self.verdicts if one.approved is False]
        return CrossCheckResult(
            text=self.output,
            prompt=self.task,
            primary_output=self.output,
            checkers=len(self.voices),
            asked=len(self.verdicts),
            approvals=len(approving),
            rejections=len(rejecting),
            approval_details=tuple(_details(one, "confidence", "feedback") for one in approving),
            rejection_details=tuple(_details(one, "issues", "feedback", "confidence") for one in rejecting),
            consensus=decision,
            final_approved=decision.approved,
            revisions=self.revisions,
            failures=tuple(self.failures),
            warnings=() if decision.approved else (f"the answer is not approved: {decision.reason}",),
        )

    @property
    def _against(self) -> list[CheckVerdict]:
        """The rejections, the mediator's included."""
        mediated = [self.mediated] if self.mediated is not None else []
        return [one for one in (*self.verdicts, *mediated) if one.approved is False]

    @property
    def _heard(self) -> bool:
        return any(verdict.approved is not None for verdict in self.verdicts)

    def _needed(self, left: Sequence[str]) -> int:
        """How many more verdicts the decision needs; at least one, even if the quorum is out of reach."""
        return max(needed(self.verdicts, left, self._rules), int(not self._heard))

    def _hear(self, slots: Sequence[str]) -> Generator[_Asking, Any, None]:
        """Call the next checkers; one without a valid verdict abstains."""
        first = len(self.verdicts)
        asked = [Question(slot, self._prompt(first + n)) for n, slot in enumerate(slots)]
        came = yield from ask_all(asked, _FIELDS, most=self.config.max_concurrency)
        for slot, got in zip(slots, came, strict=True):
            self.verdicts.append(self._judged(slot, got) or CheckVerdict(slot, None))
            yield from self._tell(self.verdicts[-1], PRIMARY)

    def _mediate(self) -> Generator[_Asking, Any, None]:
        """Call the mediator with the answer and all verdicts; if it gives no verdict, the other verdicts decide."""
        said = "\n\n".join(f"[{one.slot}]: {_in_words(one)}" for one in self.verdicts)
        prompt = f"{self._shown()}\n\nIt was checked:\n\n{said}\n\nDecide whether it is to be approved. {_JSON}"
        try:
            got: Answered | AgentFailed = yield from ask(Question(MEDIATOR, prompt), _FIELDS)
        except AgentFailed as failed:
            got = failed
        self.mediated = self._judged(MEDIATOR, got)
        if self.mediated is not None:
            yield from self._tell(self.mediated, PRIMARY)

    def _judged(self, slot: str, got: Answered | AgentFailed) -> CheckVerdict | None:
        """The verdict of *slot*; None, and a recorded failure, without a valid one."""
        match got:
            case AgentFailed():
                self.failures.append(failure(slot, got))
            case Answered(value=None):
                self.failures.append(SlotFailure(slot, "invalid_output", got.fault))
            case Answered(value=dict() as said):
                issues, feedback = tuple(said.get("issues", ())), said.get("feedback", "")
                return CheckVerdict(slot, said["approved"], confidence(got.reply), issues, feedback)
        return None

    def _tell(self, verdict: CheckVerdict, whom: str) -> Generator[_Asking, Any, None]:
        if verdict.approved is not None:
            content = structs.asdict(verdict)
            yield Tell(content.pop("slot"), whom, "response", content, self.revisions)

    def _prompt(self, n: int) -> str:
        special = self.config.checker_specializations[n : n + 1]
        look = f"You look at one thing above all: {special[0]}. " if special else ""
        return f"{self._shown()}\n\nCheck this answer by yourself. {look}{_JSON}"

    def _shown(self) -> str:
        return f"This was asked:\n\n{self.task}\n\nThis was answered:\n\n{self.output}"


def _details(verdict: CheckVerdict, *names: str) -> dict[str, Any]:
    return {"checker": verdict.slot, **{name: getattr(verdict, name) for name in names}}


def _in_words(verdict: CheckVerdict) -> str:
    if verdict.approved is None:
        return "no verdict"
    sure = "" if verdict.confidence is None else f", with confidence {verdict.confidence:g}"
    said = [f"{'approved' if verdict.approved else 'rejected'}{sure}", *verdict.issues, verdict.feedback]
    return "; ".join(part for part in said if part)
