"""Who may change a run: an operator may change any run, a process of an attempt only runs that this attempt began.

Every command that changes something it does not own checks this first. An owner checks the senders of messages by the
same rule.
"""

from coterie.agents.backends.processes import is_within, marks_of
from coterie.errors import NotTheOperator
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import RunReader


def check_operator(runs: RunReader | None = None, run: str = "") -> tuple[str, ...]:
    """Check that this process may change *run* of *runs*; without them, data that belongs to no run.

    Returns:
        The attempts in which this process runs, as `coterie.agents.backends.processes.marks_of` lists them; empty for
        an operator.

    Raises:
        NotTheOperator: If it runs within an attempt that did not begin the run.
    """
    marks = marks_of() or ()
    if marks and not is_within(marks, runs.first(root_of(run)).begun_by if runs is not None else ()):
        raise NotTheOperator(marks[0])
    return marks
