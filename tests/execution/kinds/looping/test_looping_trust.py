"""How far the files of a run can be trusted that were read again: what its records say."""

from coterie.execution.kinds.loop.reload import Trust, trust_of
from coterie.history.journal.records import (
    AttemptLaunched,
    ConfigHeld,
    ConfigKept,
    OperatorSaid,
    PlanReloaded,
    Record,
)

WEAKER = ("backend.sandbox", "required", "off")
HELD = ConfigHeld(keys=("backend.sandbox",), held=(WEAKER,), plan="", plan_hash="")


def trust(*records: Record, run: str = "r") -> Trust:
    """The trust of the run `r` after *records* of *run*."""
    return trust_of("r", [(run, record) for record in records])


def said(what: str, text: str = "") -> OperatorSaid:
    return OperatorSaid(message="m", what=what, text=text)


def test_a_run_is_confined_until_one_attempt_was_not() -> None:
    """Those of child runs count, too."""
    assert trust().confined
    assert trust(AttemptLaunched(turn="a#1", attempt=1, confined=True)).confined
    assert not trust(
        AttemptLaunched(turn="a#1", attempt=1), AttemptLaunched(turn="a#2", attempt=1, confined=True), run="r/a#1.1"
    ).confined


def test_what_was_taken_is_what_was_held_back_then() -> None:
    """A plan that an operator gave holds nothing back any more; a child run's says nothing of its root."""
    assert trust(HELD).held == (WEAKER,)
    assert trust(HELD, said("take")).taken == {WEAKER}
    assert trust(HELD, PlanReloaded(plan="{}")).held == ()
    assert trust(HELD, PlanReloaded(plan="{}"), said("take")).taken == set()
    child = [("r/a#1.1", PlanReloaded(plan="{}")), ("r/a#1.1", ConfigHeld(plan="", plan_hash=""))]
    assert trust_of("r", [("r", HELD), *child]).held == (WEAKER,)


def test_a_change_by_a_person_counts_until_the_files_are_read_again() -> None:
    """By command, or by allowing a tool in the whole project."""
    assert trust(said("change", "backend.timeout_ms"), said("project", "Bash(ls)")).changed == {
        "backend.timeout_ms",
        "backend.allow",
    }
    assert trust(said("change", "backend.timeout_ms"), ConfigKept()).changed == set()
    assert trust(said("change", "backend.timeout_ms"), HELD).changed == set()
    assert trust(said("always", "Bash(ls)")).changed == set()
