"""Combine verdicts into a decision: approved or not, why, and by what margin.

A checker without a verdict abstains: it counts neither for nor against, but a quorum of verdicts is required. Approvals
and rejections weigh the same: with log-odds, approving with confidence 0.3 is rejecting with 0.7. A tie rejects.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct, structs

from coterie.history.engines.patterns.weights import ONE, weight
from coterie.team.topology.patterns.configs import Consensus, Weights


class CheckVerdict(Struct, frozen=True):
    """The verdict of one checker.

    Attributes:
        approved: None: it abstains.
        confidence: Its confidence, from 0 to 1; None: not stated.
        issues: The faults it found.
        feedback: Any other comment.
    """

    slot: str
    approved: bool | None
    confidence: float | None = None
    issues: tuple[str, ...] = ()
    feedback: str = ""


class ConsensusResult(Struct, frozen=True):
    """The combined decision.

    Attributes:
        approval_rate: The share of approvals among the verdicts; 0 without any.
        margin: The lead of the approvals as a share of all weight, from -1 to 1.
        agreement: The share of pairs of checkers that agree, from 0 to 1; None with fewer than two verdicts. (Kappa,
            which corrects for chance, needs many answers.)
        issues: The issues of all rejections, without duplicates, in the order of the verdicts.
        raised: For each issue, the slots that raised it.
        abstained: The slots without a verdict.
        reason: The reason, in one sentence.
    """

    approved: bool
    method: Consensus
    approval_rate: float
    margin: float
    agreement: float | None
    issues: tuple[str, ...]
    raised: tuple[tuple[str, ...], ...]
    abstained: tuple[str, ...]
    reason: str


class ConsensusRules(Struct, frozen=True):
    """How verdicts become a decision.

    Attributes:
        method: `majority`: more approvals than rejections. `unanimous`: no rejection. `weighted`: the approvals weigh
            more than the rejections. `mediator`: the mediator decides, and without its verdict the majority.
            `first_agree`: the side that first has *quorum* verdicts, in the order given.
        quorum: Verdicts required for an approval, besides the mediator's.
        unanimous: Any rejection rejects, whatever the method.
        weights: The weight of a verdict, for `weighted`.
        accuracy: The measured accuracy of slots; it takes precedence over the stated confidence.
    """

    method: Consensus = "majority"
    quorum: int = 2
    unanimous: bool = False
    weights: Weights = "log_odds"
    accuracy: Mapping[str, float] = {}


def decide(
    verdicts: Sequence[CheckVerdict], rules: ConsensusRules, mediator: CheckVerdict | None = None
) -> ConsensusResult:
    """Combine *verdicts* by *rules*."""
    approving = [one for one in verdicts if one.approved is True]
    rejecting = [one for one in verdicts if one.approved is False]
    approved, reason = _judge(verdicts, rules, mediator)
    weighed = sum(abs(_weight(one, rules)) for one in (*approving, *rejecting))
    raised = _merged([*rejecting, *([mediator] if mediator is not None and mediator.approved is False else [])])
    return ConsensusResult(
        approved=approved,
        method=rules.method,
        approval_rate=len(approving) / max(len(approving) + len(rejecting), 1),
        margin=_lead(verdicts, rules) / weighed if weighed else 0.0,
        agreement=_agreement(len(approving), len(rejecting)),
        issues=tuple(issue for issue, _ in raised),
        raised=tuple(slots for _, slots in raised),
        abstained=tuple(one.slot for one in verdicts if one.approved is None),
        reason=reason,
    )


def needed(came: Sequence[CheckVerdict], left: Sequence[str], rules: ConsensusRules) -> int:
    """How many of the slots *left* must answer before the decision is known; 0: it is known.

    Asking that many at once takes no more turns than asking one by one until the decision is known, and it is the
    decision of all verdicts. A mediator reads all verdicts, so with one all slots must answer.
    """
    if rules.method == "mediator":
        return len(left)
    if rules.method == "weighted" and rules.unanimous and any(rules.accuracy.get(slot, 1.0) < 0.5 for slot in left):
        return 1  # such a slot counts as its opposite, but its rejection still rejects: all must answer
    ways = [_extreme(left, rules, approved=approved) for approved in (True, False, None)]

    def known(way: Sequence[CheckVerdict], k: int) -> bool:
        so_far = [*came, *way[:k]]
        return len({_judge([*so_far, *other[k:]], rules, None)[0] for other in ways}) == 1

    ks = range(len(left) + 1)
    return min(bisect_left(ks, True, key=partial(known, way)) for way in ways)


def _judge(verdicts: Sequence[CheckVerdict], rules: ConsensusRules, mediator: CheckVerdict | None) -> tuple[bool, str]:
    """Whether the verdicts approve, and why."""
    approvals = sum(one.approved is True for one in verdicts)
    rejections = sum(one.approved is False for one in verdicts)
    counts = f"{approvals} for, {rejections} against"
    if approvals + rejections < rules.quorum:
        return False, f"{counts}: no quorum of {rules.quorum}"
    if rejections and (rules.unanimous or rules.method == "unanimous"):
        return False, f"{counts}: not unanimous"
    match rules.method:
        case "unanimous":
            return approvals > 0, f"{counts}: unanimous"
        case "majority":
            return approvals > rejections, f"{counts}: {_which(approvals - rejections)}"
        case "weighted":
            lead = _lead(verdicts, rules)
            return lead > 0, f"{counts}: {_which(lead)} by weight, {lead / ONE:+.2f}"
        case "mediator":
            if mediator is not None and mediator.approved is not None:
                return mediator.approved, f"{counts}: the mediator {'approves' if mediator.approved else 'rejects'}"
            return approvals > rejections, f"{counts}, none by the mediator: {_which(approvals - rejections)}"
        case "first_agree":
            agreed = _first_agreed(verdicts, rules.quorum)
            return agreed is True, f"{counts}: " + (
                f"no {rules.quorum} agree" if agreed is None else f"the first {rules.quorum} to agree decide"
            )
        case _:
            assert_never(rules.method)


def _agreement(approvals: int, rejections: int) -> float | None:
    pairs = (approvals + rejections) * (approvals + rejections - 1)
    return (approvals * (approvals - 1) + rejections * (rejections - 1)) / pairs if pairs else None


def _which(lead: int) -> str:
    return "the majority approves" if lead > 0 else "the majority rejects" if lead < 0 else "a tie, which rejects"


def _first_agreed(verdicts: Sequence[CheckVerdict], quorum: int) -> bool | None:
    counts = {True: 0, False: 0}
    for one in verdicts:
        if one.approved is not None:
            counts[one.approved] += 1
            if counts[one.approved] >= quorum:
                return one.approved
    return None


def _lead(verdicts: Sequence[CheckVerdict], rules: ConsensusRules) -> int:
    """The weight of the approvals minus that of the rejections."""
    signs = {True: 1, False: -1, None: 0}
    return sum(signs[one.approved] * _weight(one, rules) for one in verdicts)


def _weight(one: CheckVerdict, rules: ConsensusRules) -> int:
    if rules.method != "weighted":
        return ONE
    return weight(rules.accuracy.get(one.slot, one.confidence), rules.weights)


def _extreme(slots: Sequence[str], rules: ConsensusRules, *, approved: bool | None) -> list[CheckVerdict]:
    """The verdicts of *slots* that favour approval, or rejection, the most; None: all abstain.

    The verdict of a slot that is usually wrong counts as its opposite.
    """
    said = [CheckVerdict(slot, approved, confidence=1.0) for slot in slots]
    if approved is None:
        return said
    return [one if _weight(one, rules) >= 0 else structs.replace(one, approved=not approved) for one in said]


def _merged(verdicts: Sequence[CheckVerdict]) -> list[tuple[str, tuple[str, ...]]]:
    """The issues of *verdicts* without duplicates (case, spaces and a full stop are ignored), each with its slots."""
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for one in verdicts:
        for issue in one.issues:
            _, slots = found.setdefault(" ".join(issue.casefold().rstrip(". ").split()), (issue, {}))
            slots[one.slot] = None
    return [(issue, tuple(slots)) for issue, slots in found.values()]
