"""Whether a failed attempt is tried again, and when.

Rule 9 of the flow notation, the same for every engine: transient failures at most 3 times (with the provider's
Retry-After if that is longer than the backoff); an invalid reply at least once, without a delay; other failures as
often as the agent's `retry` says. Each of the first and the last kind has a backoff: 1 s, doubled, at most 30 s.
An attempt that failed for a quota which opens at a known time, more than five minutes away, is tried again then and
never counts, unless the agent has a fallback. An interruption never counts, but three crashes in a row do end the turn,
and so do ten losses of what ran it.
An agent may have a number of attempts in all instead, as a stage of a pipeline has; then every failure is one of them,
but so many invalid replies as it has repairs are never the last one.
"""

from msgspec import Struct

from coterie.journal.records import AttemptFailed, AttemptInterrupted

TRANSIENT = frozenset({"rate_limited", "transient"})
FINAL = frozenset({"auth", "quota", "not_found"})
"""Kinds that trying again cannot mend: never counted against `retry`, never repeated."""
LOST = frozenset({"crash", "lost"})
"""Reasons of interruptions that nothing in the run caused."""
MAX_TRANSIENT = 3
MAX_CRASHES, MAX_LOSSES = 3, 10
"""In a row, without another end of an attempt. That nodes are lost is no fault of the turn, and three of them may be
bad luck; but a turn that takes down each node that it is given must end, too.
"""
BACKOFF_FIRST = 1.0
BACKOFF_MOST = 30.0
WAIT_MOST = 300.0
"""The longest Retry-After of a provider that counts as a backoff, in seconds; after a longer one a quota opens."""
QUOTA = frozenset({"rate_limited", "quota"})
QUOTA_MOST = 40 * 86_400.0
"""The longest time to a quota's reset that is believed, in seconds."""


def opens_at(failed: AttemptFailed, now: float) -> float:
    """When the quota that *failed* an attempt opens again, in Unix seconds; 0: not known, or within `WAIT_MOST`."""
    return now + failed.wait if failed.kind in QUOTA and WAIT_MOST < failed.wait <= QUOTA_MOST else 0.0


class RetryCount(Struct, gc=False):
    """What has gone wrong with one turn so far.

    Attributes:
        transient: Transient failures.
        invalid: Replies that did not fit.
        other: All other failures.
        crashes: Times the owner died during an attempt, in a row.
        losses: Times what ran an attempt died, in a row.
        interrupted: Times an attempt was cut off, for whatever reason.
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
        """Whether no further attempt follows: *enough* failures of one kind, or all attempts that there are."""
        return enough if attempts is None else self.transient + self.invalid + self.other >= attempts


def _backoff(failures: int) -> float:
    """Seconds to wait after that many *failures* of one kind."""
    return min(BACKOFF_FIRST * 2.0 ** min(failures - 1, 10), BACKOFF_MOST)
