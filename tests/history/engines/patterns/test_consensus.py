import itertools
from typing import Any, get_args

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from steps import Compared, comparisons

from coterie.history.engines.patterns.consensus import CheckVerdict, ConsensusRules, decide, needed
from coterie.team.topology.patterns.configs import Consensus, Weights

METHODS: tuple[Consensus, ...] = get_args(Consensus)
SURE = st.one_of(st.none(), st.floats(0, 1))


def verdicts(said: str) -> list[CheckVerdict]:
    """`+` approves, `-` rejects, `0` abstains."""
    return [CheckVerdict(f"checker_{at}", {"+": True, "-": False, "0": None}[one]) for at, one in enumerate(said)]


@bundle(
    ("method", "said", "approved"),
    [
        ("majority", "++-", True),
        ("majority", "+--", False),
        ("majority", "+-", False),
        ("majority", "++0", True),
        ("unanimous", "+++", True),
        ("unanimous", "++-", False),
        ("unanimous", "++0", True),
        ("weighted", "++-", True),
        ("weighted", "+-", False),
        ("mediator", "++-", True),
        ("mediator", "+-", False),
        ("first_agree", "-++-", True),
        ("first_agree", "-+-+", False),
        ("first_agree", "+-", False),
        ("first_agree", "+0+--", True),
    ],
)
def test_what_verdicts_come_to(method: Consensus, said: str, approved: bool) -> None:
    """A tie rejects; who abstains counts on neither side; without a mediator's verdict the majority decides."""
    assert decide(verdicts(said), ConsensusRules(method)).approved is approved


def test_numbers_and_reason_go_with_the_decision() -> None:
    """How many approve, by how much they lead, who abstained, and why it came so."""
    outcome = decide(verdicts("++-0"), ConsensusRules())

    assert (outcome.approved, outcome.method) == (True, "majority")
    assert outcome.approval_rate == pytest.approx(2 / 3)
    assert outcome.margin == pytest.approx(1 / 3)
    assert outcome.abstained == ("checker_3",)
    assert outcome.reason == "2 for, 1 against: the majority approves"


@bundle(
    ("said", "agreement"),
    [("+++", 1.0), ("--", 1.0), ("+-", 0.0), ("++-0", 1 / 3), ("++--", 1 / 3), ("+0", None), ("00", None)],
)
def test_how_far_the_checkers_agree(said: str, agreement: float | None) -> None:
    """The share of pairs of verdicts that are the same; nobody agrees with nobody."""
    assert decide(verdicts(said), ConsensusRules(quorum=1)).agreement == agreement


@bundle("method", METHODS)
def test_without_a_quorum_nothing_is_approved(method: Consensus) -> None:
    """One verdict is not what was asked for; a quorum of one is content with it."""
    short = decide(verdicts("+00"), ConsensusRules(method))

    assert not short.approved
    assert "no quorum of 2" in short.reason
    assert decide(verdicts("+00"), ConsensusRules(method, quorum=1)).approved
    assert not decide(verdicts("00"), ConsensusRules(method, quorum=1)).approved
    assert not decide([], ConsensusRules(method)).approved


@bundle("method", METHODS)
def test_a_rejection_rejects_where_all_must_approve(method: Consensus) -> None:
    """Whatever the method says."""
    yes = CheckVerdict("mediator", approved=True)

    assert decide(verdicts("++++-"), ConsensusRules(method), yes).approved is (method != "unanimous")
    assert not decide(verdicts("++++-"), ConsensusRules(method, unanimous=True), yes).approved
    assert decide(verdicts("++++0"), ConsensusRules(method, unanimous=True), yes).approved


def test_the_mediator_decides_when_it_has_a_verdict() -> None:
    """Its issues join those of the checkers; when it abstains the majority decides, and the reason says so."""
    rejects = CheckVerdict("mediator", approved=False, issues=("late",))
    outcome = decide(verdicts("++"), ConsensusRules("mediator"), rejects)

    assert (outcome.approved, outcome.issues) == (False, ("late",))
    assert decide(verdicts("--"), ConsensusRules("mediator"), CheckVerdict("mediator", approved=True)).approved
    silent = decide(verdicts("++"), ConsensusRules("mediator"), CheckVerdict("mediator", approved=None))
    assert silent.approved
    assert "none by the mediator" in silent.reason


@pytest.mark.parametrize(("how", "approved"), [("log_odds", True), ("linear", False), ("uniform", False)])
def test_one_who_is_sure_against_two_who_are_not(how: Weights, approved: bool) -> None:
    """.95 for, .55 twice against: 2.94 to 0.40 in log-odds, 0.95 to 1.10 as they stand."""
    said = [CheckVerdict("a", True, 0.95), CheckVerdict("b", False, 0.55), CheckVerdict("c", False, 0.55)]

    outcome = decide(said, ConsensusRules("weighted", weights=how))

    assert outcome.approved is approved
    assert (outcome.margin > 0) is approved


def test_measured_accuracy_counts_before_what_is_said() -> None:
    """A checker that is wrong more often than right speaks for the contrary."""
    said = [CheckVerdict("a", True, 0.99), CheckVerdict("b", False, 0.6)]

    assert decide(said, ConsensusRules("weighted")).approved
    assert not decide(said, ConsensusRules("weighted", accuracy={"a": 0.55})).approved
    assert decide(
        [CheckVerdict("liar", False), CheckVerdict("b", False)],
        ConsensusRules("weighted", accuracy={"liar": 0.1, "b": 0.6}),
    ).approved


def test_issues_are_told_once_with_all_who_raise_them() -> None:
    """In the order of the verdicts; of those who approve none is taken."""
    said = [
        CheckVerdict("a", False, issues=("No tests.", "Too long")),
        CheckVerdict("b", True, issues=("a matter of taste",)),
        CheckVerdict("c", False, issues=("no  tests", "no tests", "Typo")),
    ]

    outcome = decide(said, ConsensusRules())

    assert outcome.issues == ("No tests.", "Too long", "Typo")
    assert outcome.raised == (("a", "c"), ("a",), ("c",))


drawn_verdicts = st.lists(st.tuples(st.sampled_from([True, False, None]), SURE), max_size=6).map(
    lambda drawn: [CheckVerdict(f"c{at}", approved, sure) for at, (approved, sure) in enumerate(drawn)]
)


@given(drawn_verdicts, st.sampled_from(get_args(Weights)))
def test_approving_and_rejecting_weigh_alike(said: list[CheckVerdict], how: Weights) -> None:
    """Swap them, and the lead is the same on the other side; only a tie rejects both ways."""
    swapped = [
        CheckVerdict(one.slot, None if one.approved is None else not one.approved, one.confidence) for one in said
    ]
    one, other = (decide(given, ConsensusRules("weighted", weights=how, quorum=0)) for given in (said, swapped))

    assert one.margin == -other.margin
    assert one.approved is not other.approved or (not one.approved and one.margin == 0)


@given(drawn_verdicts)
def test_to_approve_with_little_confidence_is_to_reject_with_much(said: list[CheckVerdict]) -> None:
    """With log-odds, confidence 0.3 for is 0.7 against."""
    mirrored = [
        CheckVerdict(one.slot, not one.approved, 1 - one.confidence)
        if one.approved is not None and one.confidence is not None
        else one
        for one in said
    ]
    one, other = (decide(given, ConsensusRules("weighted", quorum=0)) for given in (said, mirrored))

    assert (one.approved, one.margin) == (other.approved, other.margin)


@given(drawn_verdicts, st.sampled_from([m for m in METHODS if m != "first_agree"]), st.randoms())
def test_the_order_does_not_matter(said: list[CheckVerdict], method: Consensus, dice: Any) -> None:
    """But for `first_agree`, whose matter it is."""
    shuffled = said.copy()
    dice.shuffle(shuffled)
    one, other = decide(said, ConsensusRules(method)), decide(shuffled, ConsensusRules(method))

    assert (one.approved, one.approval_rate, one.margin) == (other.approved, other.approval_rate, other.margin)


@given(
    st.lists(st.tuples(st.sampled_from([True, False, None]), st.sampled_from([None, 0.1, 0.5, 0.9])), max_size=6),
    st.sampled_from(METHODS),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(get_args(Weights)),
    st.dictionaries(st.sampled_from([f"c{at}" for at in range(6)]), st.sampled_from([0.2, 0.5, 0.6, 0.95])),
)
def test_asking_as_many_as_needed_costs_what_asking_one_by_one_costs(
    drawn: list[tuple[bool | None, float | None]],
    method: Consensus,
    quorum: int,
    unanimous: bool,
    weights: Weights,
    accuracy: dict[str, float],
) -> None:
    """The same turns, and the decision of all verdicts."""
    rules: dict[str, Any] = {"quorum": quorum, "unanimous": unanimous, "weights": weights, "accuracy": accuracy}
    said = [CheckVerdict(f"c{at}", approved, sure) for at, (approved, sure) in enumerate(drawn)]
    slots = [one.slot for one in said]

    def asked(batch: bool) -> int:
        n = 0
        while k := needed(said[:n], slots[n:], ConsensusRules(method, **rules)):
            n += k if batch else 1
        return n

    n = asked(batch=True)
    assert n == asked(batch=False)
    assert (
        decide(said[:n], ConsensusRules(method, **rules)).approved
        is decide(said, ConsensusRules(method, **rules)).approved
    )


@bundle("method", METHODS)
@bundle("quorum", [1, 2, 3])
@bundle("unanimous", [False, True])
def test_a_decision_is_known_when_no_one_can_change_it_and_not_later(
    method: Consensus, quorum: int, unanimous: bool
) -> None:
    """Played over everything that can still be said, for up to four checkers; a mediator hears them all."""
    rules: dict[str, Any] = {"quorum": quorum, "unanimous": unanimous, "accuracy": {"x": 0.75}}

    def can_be_known(so_far: str, k: int, left: int) -> bool:
        return any(
            len(
                {
                    decide(verdicts(so_far + "".join((*more, *rest))), ConsensusRules(method, **rules)).approved
                    for rest in itertools.product("+-0", repeat=left - k)
                }
            )
            == 1
            for more in itertools.product("+-0", repeat=k)
        )

    for asked, left in [(0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]:
        for so_far in map("".join, itertools.product("+-0", repeat=asked)):
            least = next(k for k in range(left + 1) if can_be_known(so_far, k, left))
            expected = left if method == "mediator" else least
            assert needed(verdicts(so_far), ["x"] * left, ConsensusRules(method, **rules)) == expected, (so_far, left)


def test_where_a_verdict_counts_for_the_contrary_and_a_rejection_rejects_they_are_heard_one_by_one() -> None:
    """Then more than is needed is never asked: the first rejection ends it."""
    rules: dict[str, Any] = {"unanimous": True, "quorum": 1, "accuracy": {"liar": 0.2}}

    assert needed([], ["liar", "b", "c"], ConsensusRules("weighted", **rules)) == 1
    assert needed([CheckVerdict("liar", False)], ["b", "c"], ConsensusRules("weighted", **rules)) == 0


def test_two_of_three_who_agree_decide() -> None:
    """The third call is saved."""
    assert needed([], list("abc"), ConsensusRules()) == 2
    assert needed(verdicts("++"), ["c"], ConsensusRules()) == 0
    assert needed(verdicts("+-"), ["c"], ConsensusRules()) == 1
    assert needed(verdicts("-"), ["b"], ConsensusRules()) == 0


def test_what_all_find_wrong_is_counted_once_each() -> None:
    """The work grows with what is said: twice as many checkers, each with as many issues, is twice as much."""

    def work(n: int) -> int:
        issues = tuple(f"issue {k}" for k in range(20))
        verdicts = [CheckVerdict(Compared(f"c{k}"), approved=False, issues=issues) for k in range(n)]
        assert [len(slots) for slots in decide(verdicts, ConsensusRules()).raised] == [n] * 20
        return comparisons(lambda: decide(verdicts, ConsensusRules()))

    assert work(200) <= 2 * work(100) + 20
