"""Decide whether and when a failed attempt is retried.

This is rule 9 of the flow notation, the same for every engine. Transient failures are retried at most 3 times (after
the provider's Retry-After if that is longer than the backoff), an invalid reply at least once, without a delay, and
other failures as often as the agent's `retry` says. The first and the last kind have a backoff: 1 s, doubled each time,
at most 30 s. If an attempt failed because of a quota that opens at a known time, more than five minutes away, it is
retried then and never counts, unless the agent has a fallback. An interruption never counts, but three crashes in a row
end the turn, and so do ten losses of the node that ran it. Instead, an agent may have a total number of attempts, as a
stage of a pipeline has; then every failure counts as one attempt, but as many invalid replies as it has repairs never
end the turn.
"""

from msgspec import Struct

from coterie.history.journal.records import AttemptFailed, AttemptInterrupted

TRANSIENT = frozenset({"rate_limited", "transient"})
FINAL = frozenset({"auth", "quota", "not_found"})
"""Kinds of failures that a retry cannot fix: never retried, and never counted against `retry`."""
LOST = frozenset({"crash", "lost"})
"""Reasons for interruptions that nothing in the run caused."""
MAX_TRANSIENT = 3
MAX_CRASHES, MAX_LOSSES = 3, 10
"""Losses in a row, without another end of an attempt. Losing a node is not the turn's fault, and three losses may be
bad luck; but a turn that takes down every node it runs on must end, too.
"""
BACKOFF_FIRST = 1.0
BACKOFF_MOST = 30.0
WAIT_MOST = 300.0
"""The longest Retry-After that counts as a backoff, in seconds; a longer one is the opening of a quota."""
QUOTA = frozenset({"rate_limited", "quota"})
QUOTA_MOST = 40 * 86_400.0
"""The longest credible time until a quota's reset, in seconds."""


def opens_at(failed: AttemptFailed, now: float) -> float:
    """When the quota that *failed* an attempt opens again, in Unix seconds; 0: not known, or within `WAIT_MOST`."""
    return now + failed.wait if failed.kind in QUOTA and WAIT_MOST < failed.wait <= QUOTA_MOST else 0.0


class RetryCount(Struct, gc=False):
    """What has gone wrong with one turn so far.

    Attributes:
        transient: Transient failures.
        invalid: Invalid replies.
        other: All other failures.
        crashes: How often in a row the owner died during an attempt.
        losses: How often in a row the node that ran an attempt was lost.
        interrupted: How often an attempt was cut off, for any reason.
    """

    transient: int = 0
    invalid: int = 0
    other: int = 0
    crashes: int = 0
    losses: int = 0
    interrupted: int = 0

    def after_failure(
        self, failed: AttemptFailed, retry: int, attempts: int | None = None, repairs: int = 0
    ) -> float | None:
        """Count *failed* and return the seconds to wait before the next attempt; None: the turn has failed."""
        self.crashes = self.losses = 0
        if failed.kind in TRANSIENT:
            self.transient += 1
            if self._is_last(attempts, self.transient > MAX_TRANSIENT):
                return None
            return max(_backoff(self.transient), min(failed.wait, WAIT_MOST))
        if failed.kind in FINAL:
            return None
        if failed.kind == "invalid_output":
            self.invalid += 1
            last = self.invalid > repairs and self._is_last(attempts, self.invalid > max(1, retry))
            return None if last else 0.0
        self.other += 1
        return None if self._is_last(attempts, self.other > retry) else _backoff(self.other)

    def after_interruption(self, cut: AttemptInterrupted) -> float | None:
        """Count *cut* and return the seconds to wait before the next attempt; None: too many in a row."""
        self.interrupted += 1
        if cut.reason not in LOST:
            self.crashes = self.losses = 0
        self.crashes += cut.reason == "crash"
        self.losses += cut.reason == "lost"
        return 0.0 if self.crashes < MAX_CRASHES and self.losses < MAX_LOSSES else None

    def _is_last(self, attempts: int | None, enough: bool) -> bool:
        """Whether no further attempt follows: after *enough* failures of one kind, or after all *attempts*."""
        return enough if attempts is None else self.transient + self.invalid + self.other >= attempts


def _backoff(failures: int) -> float:
    """Seconds to wait after that many *failures* of one kind."""
    return min(BACKOFF_FIRST * 2.0 ** min(failures - 1, 10), BACKOFF_MOST)
