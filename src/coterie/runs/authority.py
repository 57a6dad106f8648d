"""Who may change a run: an operator any, a process of an attempt only the runs that this attempt began.

Every command that changes what it does not own asks here. An owner checks the senders of messages by the same rule.
"""

from coterie.backends.processes import is_within, marks_of
from coterie.errors import NotTheOperator
from coterie.journal.rules import root_of
from coterie.journal.runs import RunReader


def check_operator(runs: RunReader | None = None, run: str = "") -> tuple[str, ...]:
    """Check that this process may change *run* of *runs*, or without them what belongs to no run.

    Returns:
        The attempts in which this process runs, as `coterie.backends.processes.marks_of` has them; an operator's: none.

    Raises:
        NotTheOperator: If it runs within an attempt that did not begin the run.
    """
    marks = marks_of() or ()
    if marks and not is_within(marks, runs.first(root_of(run)).begun_by if runs is not None else ()):
        raise NotTheOperator(marks[0])
    return marks
