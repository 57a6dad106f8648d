"""Records of sets: the starts of a node that a flow maps over a list."""

from coterie.history.journal.records.base import Record


class SetStarted(Record, frozen=True, kw_only=True, tag="set.started", gc=False):
    """A mapped node started: its agent runs once for each item of a list. Records name it by its id, like a turn.

    Attributes:
        set: Its id, `reader@1`.
        node: The mapped node.
        items: How many items it has.
        first: The number of the first item's turn; the turns of the others follow it, in the items' order.
        inputs: The turns and sets whose results marked it, in the source order of the arrows.
        given_by: The turn or set whose output is the list; empty: it is in the run's input.
        found: How many items the list has, if only the first of them count (`on-more first`); else 0.
    """

    set: str
    node: str
    items: int
    first: int
    inputs: tuple[str, ...] = ()
    given_by: str = ""
    found: int = 0


class SetEnded(Record, frozen=True, kw_only=True, tag="set.ended", gc=False):
    """A set ended, and its outputs count from here on. They follow from the results of its items.

    Attributes:
        outputs: The names of its outputs, each of which is a list in the items' order.
        done: How many items have a result; the others are null.
        early: Whether its `until` held before all items had ended.
    """

    set: str
    outputs: tuple[str, ...] = ()
    done: int = 0
    early: bool = False
