"""What several verdicts come to: approved or not, why, and by how much.

Whoever gives no verdict abstains: it counts neither for nor against, but a quorum of verdicts must come. Approving and
rejecting weigh alike: with log-odds, to approve with confidence 0.3 is to reject with 0.7. A tie rejects.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct, structs

from coterie.engines.patterns.weights import ONE, weight
from coterie.topology.patterns.configs import Consensus, Weights


class CheckVerdict(Struct, frozen=True):
    """What one checker says.

    Attributes:
        approved: None: it abstains.
        confidence: How sure it is, from 0 to 1; None: it did not say.
        issues: What is wrong.
        feedback: What else it has to say.
    """

    slot: str
    approved: bool | None
    confidence: float | None = None
    issues: tuple[str, ...] = ()
    feedback: str = ""


class ConsensusResult(Struct, frozen=True):
    """What the verdicts come to.

    Attributes:
        approval_rate: The share of approvals among the verdicts; 0 without any.
        margin: By how much what approves leads, as a share of all that counts: from -1 to 1.
        agreement: The share of pairs of checkers that say the same, from 0 to 1; None with fewer than two verdicts. Of
            one answer that is all there is to know: kappa, which takes off what chance does, needs many.
        issues: Those of all who reject, each once, in the order of the verdicts.
        raised: For each issue the slots that have it.
        abstained: Who gave no verdict.
        reason: Why, in one sentence.
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


def decide(
    verdicts: Sequence[CheckVerdict],
    method: Consensus = "majority",
    *,
    quorum: int = 2,
    unanimous: bool = False,
    weights: Weights = "log_odds",
    accuracy: Mapping[str, float] | None = None,
    mediator: CheckVerdict | None = None,
) -> ConsensusResult:
    """What *verdicts* come to.

    Args:
        method: `majority`: more approve than reject. `unanimous`: nobody rejects. `weighted`: those who approve weigh
            more than those who reject. `mediator`: the mediator says, and without its verdict the majority.
            `first_agree`: the side that first has *quorum* verdicts, in the order given.
        quorum: Verdicts that must come for an approval, besides the mediator's.
        unanimous: A rejection rejects, whatever the method.
        weights: What a verdict weighs, for `weighted`.
        accuracy: How often each slot is right, as measured; it counts before the confidence that it states.
    """
    rules = _Rules(method=method, quorum=quorum, unanimous=unanimous, weights=weights, accuracy=accuracy or {})
    approving = [one for one in verdicts if one.approved is True]
    rejecting = [one for one in verdicts if one.approved is False]
    approved, reason = _judge(verdicts, rules, mediator)
    weighed = sum(abs(_weight(one, rules)) for one in (*approving, *rejecting))
    raised = _merged([*rejecting, *([mediator] if mediator is not None and mediator.approved is False else [])])
    return ConsensusResult(
        approved=approved,
        method=method,
        approval_rate=len(approving) / max(len(approving) + len(rejecting), 1),
        margin=_lead(verdicts, rules) / weighed if weighed else 0.0,
        agreement=_agreement(len(approving), len(rejecting)),
        issues=tuple(issue for issue, _ in raised),
        raised=tuple(slots for _, slots in raised),
        abstained=tuple(one.slot for one in verdicts if one.approved is None),
        reason=reason,
    )


def needed(
    came: Sequence[CheckVerdict],
    left: Sequence[str],
    method: Consensus = "majority",
    *,
    quorum: int = 2,
    unanimous: bool = False,
    weights: Weights = "log_odds",
    accuracy: Mapping[str, float] | None = None,
) -> int:
    """How many of the slots *left* must say at least what they think before the decision is known; 0: it is known.

    Asking so many at once costs no more turns than asking one after the other until it is known; whether it is approved
    is then what it is with all verdicts. Of a mediator, who hears them all, nothing is known before.
    """
    rules = _Rules(method=method, quorum=quorum, unanimous=unanimous, weights=weights, accuracy=accuracy or {})
    if method == "mediator":
        return len(left)
    if method == "weighted" and unanimous and any(rules.accuracy.get(slot, 1.0) < 0.5 for slot in left):
        return 1  # what such a slot says counts for the contrary, and a rejection rejects: only all of it tells
    ways = [_extreme(left, rules, approved=approved) for approved in (True, False, None)]

    def known(way: Sequence[CheckVerdict], k: int) -> bool:
        so_far = [*came, *way[:k]]
        return len({_judge([*so_far, *other[k:]], rules, None)[0] for other in ways}) == 1

    ks = range(len(left) + 1)
    return min(bisect_left(ks, True, key=partial(known, way)) for way in ways)


class _Rules(Struct, frozen=True, kw_only=True):
    method: Consensus
    quorum: int
    unanimous: bool
    weights: Weights
    accuracy: Mapping[str, float]


def _judge(verdicts: Sequence[CheckVerdict], rules: _Rules, mediator: CheckVerdict | None) -> tuple[bool, str]:
    """Whether it is approved, and why."""
    approvals = sum(one.approved is True for one in verdicts)
    rejections = sum(one.approved is False for one in verdicts)
    told = f"{approvals} for, {rejections} against"
    if approvals + rejections < rules.quorum:
        return False, f"{told}: no quorum of {rules.quorum}"
    if rejections and (rules.unanimous or rules.method == "unanimous"):
        return False, f"{told}: not unanimous"
    match rules.method:
        case "unanimous":
            return approvals > 0, f"{told}: unanimous"
        case "majority":
            return approvals > rejections, f"{told}: {_which(approvals - rejections)}"
        case "weighted":
            lead = _lead(verdicts, rules)
            return lead > 0, f"{told}: {_which(lead)} by weight, {lead / ONE:+.2f}"
        case "mediator":
            if mediator is not None and mediator.approved is not None:
                return mediator.approved, f"{told}: the mediator {'approves' if mediator.approved else 'rejects'}"
            return approvals > rejections, f"{told}, none by the mediator: {_which(approvals - rejections)}"
        case "first_agree":
            agreed = _first_agreed(verdicts, rules.quorum)
            return agreed is True, f"{told}: " + (
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


def _lead(verdicts: Sequence[CheckVerdict], rules: _Rules) -> int:
    """By how much those who approve weigh more than those who reject."""
    signs = {True: 1, False: -1, None: 0}
    return sum(signs[one.approved] * _weight(one, rules) for one in verdicts)


def _weight(one: CheckVerdict, rules: _Rules) -> int:
    if rules.method != "weighted":
        return ONE
    return weight(rules.accuracy.get(one.slot, one.confidence), rules.weights)


def _extreme(slots: Sequence[str], rules: _Rules, *, approved: bool | None) -> list[CheckVerdict]:
    """The verdicts of *slots* that lead furthest to an approval, or a rejection; None: they all abstain.

    The verdict of one who is wrong more often than not leads away from what it says.
    """
    said = [CheckVerdict(slot, approved, confidence=1.0) for slot in slots]
    if approved is None:
        return said
    return [one if _weight(one, rules) >= 0 else structs.replace(one, approved=not approved) for one in said]


def _merged(verdicts: Sequence[CheckVerdict]) -> list[tuple[str, tuple[str, ...]]]:
    """The issues of *verdicts*, each once, and who has it. Case, spaces and a full stop make no other issue."""
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for one in verdicts:
        for issue in one.issues:
            _, slots = found.setdefault(" ".join(issue.casefold().rstrip(". ").split()), (issue, {}))
            slots[one.slot] = None
    return [(issue, tuple(slots)) for issue, slots in found.values()]
