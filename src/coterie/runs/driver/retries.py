"""Whether a failed attempt is tried again, and when.

Rule 9 of the flow notation, the same for every engine: transient failures at most 3 times with backoff (1 s, doubled,
at most 30 s; longer, if the provider sends Retry-After); an invalid reply at least once; other
failures as often as the agent's `retry` says; an interruption never counts, but three crashes in a row do end the turn.
An agent may have a number of attempts in all instead, as a stage of a pipeline has; then every failure is one of them.
"""

from msgspec import Struct

from coterie.journal.records import AttemptFailed, AttemptInterrupted

TRANSIENT = frozenset({"rate_limited", "transient"})
FINAL = frozenset({"auth", "quota", "not_found"})
"""Kinds that trying again cannot mend: never counted against `retry`, never repeated."""
MAX_TRANSIENT = 3
MAX_CRASHES = 3
BACKOFF_FIRST = 1.0
BACKOFF_MOST = 30.0
WAIT_MOST = 300.0
"""The longest Retry-After of a provider that is followed, in seconds."""


class Tally(Struct, gc=False):
    """What has gone wrong with one turn so far.

    Attributes:
        transient: Transient failures.
        invalid: Replies that did not fit.
        other: All other failures.
        crashes: Times the owner, or what ran an attempt, died during it, in a row.
        interrupted: Times an attempt was cut off, for whatever reason.
    """

    transient: int = 0
    invalid: int = 0
    other: int = 0
    crashes: int = 0
    interrupted: int = 0

    def after_failure(self, failed: AttemptFailed, retry: int, attempts: int | None = None) -> float | None:
        """Count *failed* and return the seconds to wait before the next attempt; None: the turn has failed."""
        self.crashes = 0
        if failed.kind in TRANSIENT:
            self.transient += 1
            if self._is_last(attempts, self.transient > MAX_TRANSIENT):
                return None
            backoff = min(BACKOFF_FIRST * 2.0 ** min(self.transient - 1, 10), BACKOFF_MOST)
            return max(backoff, min(failed.wait, WAIT_MOST))
        if failed.kind in FINAL:
            return None
        if failed.kind == "invalid_output":
            self.invalid += 1
            return None if self._is_last(attempts, self.invalid > max(1, retry)) else 0.0
        self.other += 1
        return None if self._is_last(attempts, self.other > retry) else 0.0

    def after_interruption(self, cut: AttemptInterrupted) -> float | None:
        """Count *cut* and return the seconds to wait before the next attempt; None: too many crashes in a row."""
        self.interrupted += 1
        self.crashes = self.crashes + 1 if cut.reason in ("crash", "lost") else 0
        return 0.0 if self.crashes < MAX_CRASHES else None

    def _is_last(self, attempts: int | None, enough: bool) -> bool:
        """Whether no further attempt follows: *enough* failures of one kind, or all attempts that there are."""
        return enough if attempts is None else self.transient + self.invalid + self.other >= attempts
