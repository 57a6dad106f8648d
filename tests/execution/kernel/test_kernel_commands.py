"""What is left to do, in words."""

from bundles import bundle

from coterie.execution.kernel.commands import NextAttempt, phrase
from coterie.history.engines.commands import Ask, Cancel, Command, Finish, Note, Reload, Stop
from coterie.history.journal.records import PathEnded


@bundle(
    ("command", "told"),
    [
        (Ask(turn="a#1", agent="a", prompt="long"), "start a#1"),
        (NextAttempt(turn="a#1", attempt=2, due=3.0), "start attempt 2 of a#1"),
        (NextAttempt(turn="a#1", attempt=2, due=3.0, ask=True), "start attempt 2 of a#1, if a human approves"),
        (Cancel(turn="a#1"), "cancel a#1"),
        (Note(record=PathEnded(turn="a#1", reason="no arrow")), "write path.ended a#1"),
        (Reload(), "read the plan again"),
        (Stop(reason="max_iterations"), "stop: max_iterations"),
        (Finish(outcome="completed"), "end the run: completed"),
    ],
)
def test_what_is_left_to_do_is_told_in_a_phrase(command: Command | NextAttempt, told: str) -> None:
    """As `coterie replay` prints it, without the question that would be asked."""
    assert phrase(command) == told
