"""Records of the decisions of a flow."""

from coterie.history.journal.records.base import Record


class LoopExhausted(Record, frozen=True, kw_only=True, tag="loop.exhausted", gc=False):
    """All arrow groups that could have fired had reached their `max`.

    Attributes:
        turn: The turn that ended.
        exhausted: These groups, as (source, targets).
        forced: The forward group that fired instead, or None: the path ended.
    """

    turn: str
    exhausted: tuple[tuple[str, tuple[str, ...]], ...]
    forced: tuple[str, tuple[str, ...]] | None = None


class PathEnded(Record, frozen=True, kw_only=True, tag="path.ended", gc=False):
    """A turn ended and none of its node's arrows fired.

    Attributes:
        reason: `no_match`, `failed`, or what `on-max` decided.
        found: With `no_match`, the values that conditions read, by `agent.output`, as JSON; long values are cut.
    """

    turn: str
    reason: str = "no_match"
    found: dict[str, str] = {}


class ConditionUnknown(Record, frozen=True, kw_only=True, tag="condition.unknown", gc=False):
    """A condition read an output that was never produced; it counted as false."""

    turn: str
    agent: str
    field: str
