from bundles import bundle
from pattern_play import perform

from coterie.agents.backends.base import Failure
from coterie.execution.kernel.retries import WAIT_MOST, RetryCount
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted
from coterie.team.formats import read_text
from coterie.team.planning import plan_or_raise


def test_other_failures_wait_as_long_as_transient_ones_and_no_longer_than_30_seconds() -> None:
    """1 s, doubled each time; each kind counts for itself, and an invalid reply is retried at once."""
    retry_count = RetryCount()

    def fail(kind: str) -> float | None:
        return retry_count.after_failure(AttemptFailed(turn="a#1", attempt=1, kind=kind, reason="no"), retry=7)

    assert [fail("exit") for _ in range(3)] == [1.0, 2.0, 4.0]
    assert [fail("invalid_output"), fail("transient")] == [0.0, 1.0]
    assert [fail("timeout") for _ in range(5)] == [8.0, 16.0, 30.0, 30.0, None]


@bundle(
    ("kind", "config", "agent", "attempts"),
    [
        ("failed", "retry_failed_stages: false", "max_retries: 0", 1),
        ("failed", "retry_failed_stages: false", "max_retries: 2", 3),
        ("failed", "retry_failed_stages: false", "", 1),
        ("transient", "retry_failed_stages: false", "max_retries: 0", 4),
        ("auth", "retry_failed_stages: false", "max_retries: 2", 1),
        ("failed", "max_stage_retries: 1", "max_retries: 5", 2),
        ("transient", "max_stage_retries: 1", "max_retries: 5", 2),
        ("failed", "", "max_retries: 0", 3),
    ],
)
def test_max_retries_of_a_stage_counts_what_its_page_says(kind: str, config: str, agent: str, attempts: int) -> None:
    """Further attempts; transient failures do not count, unless the pipeline counts every failure of its stages."""
    stage = ", ".join(filter(None, ("command: [cat]", agent)))
    source = read_text(f"pattern: {{type: pipeline, config: {{{config}}}, slots: {{s: {{{stage}}}}}}}", "t.yaml")
    assert source.topology is not None

    done = perform(plan_or_raise(source.topology), {"prompt": "?"}, {"s": [Failure(kind=kind, reason="no")]})
    assert done.counts() == {"s": attempts}


@bundle(("agent", "attempts"), [("", 4), ("max_retries: 0", 1), ("max_retries: 5", 6)])
def test_max_retries_of_a_member_counts_further_attempts(agent: str, attempts: int) -> None:
    """3, unless it says otherwise."""
    member = ", ".join(filter(None, ("command: [cat]", agent)))
    source = read_text(f"pattern: {{type: ensemble, slots: {{ensemble_1: {{{member}}}}}}}", "t.yaml")
    assert source.topology is not None

    done = perform(plan_or_raise(source.topology), {"prompt": "?"}, {"ensemble_1": [Failure(kind="exit", reason="1")]})
    assert done.counts() == {"ensemble_1": attempts}


@bundle(
    ("wait", "pauses"),
    [(0.0, [1.0, 2.0, 4.0]), (3.0, [3.0, 3.0, 4.0]), (60.0, [60.0, 60.0, 60.0]), (86400.0, [WAIT_MOST] * 3)],
)
def test_a_pause_is_as_long_as_whoever_was_asked_wants(wait: float, pauses: list[float]) -> None:
    """At least the backoff, at most five minutes; the fourth failure of that kind ends the turn."""
    retry_count = RetryCount()
    failed = AttemptFailed(turn="a#1", attempt=1, kind="rate_limited", reason="slow down", wait=wait)

    assert [retry_count.after_failure(failed, retry=0) for _ in range(4)] == [*pauses, None]


@bundle("attempts", [1, 2, 7])
def test_a_number_of_attempts_is_for_all_kinds_of_failures(attempts: int) -> None:
    """Whichever they are, so many and no more; what was cut off is none of them."""
    kinds = ("transient", "invalid_output", "failed")
    for start in range(3):
        retry_count = RetryCount()
        waits = []
        for n in range(attempts):
            retry_count.after_interruption(AttemptInterrupted(turn="a#1", attempt=n, reason="interrupted"))
            kind = kinds[(start + n) % 3]
            failed = AttemptFailed(turn="a#1", attempt=n, kind=kind, reason="no")
            waits.append(retry_count.after_failure(failed, retry=0, attempts=attempts))
        assert [wait is None for wait in waits] == [False] * (attempts - 1) + [True]


def test_a_turn_outlives_the_loss_of_three_nodes_and_not_of_ten() -> None:
    """Only crashes in a row are few: nodes are lost by bad luck, but none is given to a turn without end."""

    def tries(*reasons: str) -> list[bool]:
        retry_count = RetryCount()
        cuts = [AttemptInterrupted(turn="a#1", attempt=n, reason=reason) for n, reason in enumerate(reasons, 1)]
        return [retry_count.after_interruption(cut) is not None for cut in cuts]

    assert tries(*["crash"] * 3) == [True, True, False]
    assert tries(*["lost"] * 10) == [True] * 9 + [False]
    assert tries("crash", "lost", "lost", "crash", "crash") == [True] * 4 + [False]
    assert all(tries(*["crash", "crash", "interrupted"] * 3, *[*["lost"] * 9, "interrupted"] * 2))


@bundle(("reason", "few"), [("crash", 2), ("lost", 9)], ids=["crashes", "losses"])
def test_only_what_cut_a_turn_off_in_a_row_ends_it(reason: str, few: int) -> None:
    """A failure in between was an attempt that ran to its end."""
    retry_count = RetryCount()
    cut = AttemptInterrupted(turn="a#1", attempt=1, reason=reason)
    for _ in range(3):
        assert [retry_count.after_interruption(cut) for _ in range(few)] == [0.0] * few
        failed = AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no")
        assert retry_count.after_failure(failed, retry=9) is not None
    assert [retry_count.after_interruption(cut) for _ in range(few + 1)] == [*[0.0] * few, None]
