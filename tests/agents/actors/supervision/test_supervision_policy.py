"""The pure rules of supervision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.actors.exits import Crashed, Exit, Normal, Shutdown, Terminated
from coterie.agents.actors.supervision.policy import (
    Backoff,
    BackoffKind,
    RestartHistory,
    RestartLimit,
    RestartPolicy,
    RestartStrategy,
    is_restarted,
)
from coterie.agents.actors.supervision.spec import RestartType

NAMES = st.lists(st.text("abcdef", max_size=2), min_size=1, unique=True)


@given(NAMES, st.data())
def test_what_is_replaced_begins_with_the_failed_child_or_is_all(children: list[str], data: st.DataObject) -> None:
    """ONE_FOR_ONE replaces the child, REST_FOR_ONE a suffix of the start order, ONE_FOR_ALL everything, in order."""
    failed = data.draw(st.sampled_from(children))

    assert RestartStrategy.ONE_FOR_ONE.affected(failed, children) == [failed]
    assert RestartStrategy.ONE_FOR_ALL.affected(failed, children) == children
    rest = RestartStrategy.REST_FOR_ONE.affected(failed, children)
    assert rest[0] == failed
    assert list(children[len(children) - len(rest) :]) == rest


@pytest.mark.parametrize("word", ["one_for_all", "ONE_FOR_ALL", "One_For_All"])
def test_the_case_of_a_strategy_does_not_matter(word: str) -> None:
    """Files and Python may write either."""
    assert RestartStrategy(word) is RestartStrategy.ONE_FOR_ALL


def test_an_unknown_strategy_is_an_error() -> None:
    """Only the case is ignored."""
    with pytest.raises(ValueError, match="one-for-all"):
        RestartStrategy("one-for-all")


def history(*restarts: tuple[float, str], window: float = 60.0) -> RestartHistory:
    """What is left in the window after *restarts*."""
    made = RestartHistory(window)
    for at, name in restarts:
        made.add(name, at)
    return made


def test_the_restart_after_the_last_allowed_is_refused() -> None:
    """The limit counts restarts inside the window, its oldest moment included."""
    policy = RestartPolicy(limit=RestartLimit(max_restarts=2, window=10.0))

    assert policy.delay("a", history((0.0, "a"), (10.0, "a"), window=10.0)) is not None
    assert policy.delay("a", history((0.0, "a"), (5.0, "b"), (10.0, "a"), window=10.0)) is None
    assert policy.delay("a", history((0.0, "a"), (5.0, "b"), (10.1, "a"), window=10.0)) is not None


def test_a_limit_of_zero_allows_no_restart() -> None:
    """As in OTP: the first failure ends the supervisor."""
    assert RestartPolicy(limit=RestartLimit(max_restarts=0)).delay("a", history((0.0, "a"))) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from("abc")), max_size=50), st.integers(1, 500))
def test_a_history_counts_what_is_in_the_window(restarts: list[tuple[int, str]], window: int) -> None:
    """In all and of each child, whatever the times."""
    made = RestartHistory(float(window))
    now, done = 0, []
    for gap, name in restarts:
        now += gap
        done.append((now, name))
        made.add(name, float(now))
        recent = [one for at, one in done if now - at <= window]
        assert len(made) == len(recent)
        assert [made.count(one) for one in "abc"] == [recent.count(one) for one in "abc"]


@pytest.mark.parametrize(
    ("kind", "delays"),
    [
        (BackoffKind.CONSTANT, [0.5, 0.5, 0.5, 0.5, 0.5]),
        (BackoffKind.LINEAR, [0.5, 1.0, 1.5, 2.0, 2.5]),
        (BackoffKind.EXPONENTIAL, [0.5, 1.0, 2.0, 3.0, 3.0]),
    ],
)
def test_the_delay_grows_with_the_restarts_of_the_child(kind: BackoffKind, delays: list[float]) -> None:
    """base, base·n, base·2^(n−1), at most the maximum; the first restart waits, too."""
    backoff = Backoff(kind=kind, base=0.5, maximum=3.0)

    assert [backoff.delay(count) for count in range(1, 6)] == delays


@given(st.sampled_from(BackoffKind), st.integers(1, 10**6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 0.99))
def test_a_delay_is_at_most_the_maximum(
    kind: BackoffKind, count: int, base: float, maximum: float, chance: float
) -> None:
    """Also with jitter and after a million failures."""
    assert 0 <= Backoff(kind=kind, base=base, maximum=maximum, jitter=1.0).delay(count, chance) <= maximum


def test_jitter_is_added_only_when_configured() -> None:
    """The same chance has no effect without it."""
    assert Backoff(base=2.0).delay(1, 0.5) == 2.0
    assert Backoff(base=2.0, jitter=0.5).delay(1, 0.5) == 2.5


def test_the_backoff_counts_the_failures_of_one_child() -> None:
    """Siblings share the limit, not the delay."""
    policy = RestartPolicy(limit=RestartLimit(max_restarts=9), backoff=Backoff(kind=BackoffKind.LINEAR))
    earlier = [(0.0, "a"), (1.0, "b"), (2.0, "a")]

    assert policy.delay("a", history(*earlier, (3.0, "a"))) == 3.0
    assert policy.delay("c", history(*earlier, (3.0, "c"))) == 1.0


@pytest.mark.parametrize(
    ("reason", "types"),
    [
        (Normal(), {"permanent"}),
        (Shutdown(), {"permanent"}),
        (Terminated(), set()),
        (Crashed("ValueError: no"), {"permanent", "transient"}),
    ],
)
def test_the_restart_type_decides_after_which_ends_a_child_is_restarted(reason: Exit, types: set[RestartType]) -> None:
    """OTP's table."""
    kinds: list[RestartType] = ["permanent", "transient", "temporary"]

    assert {kind for kind in kinds if is_restarted(kind, reason)} == types
