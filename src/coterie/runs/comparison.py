"""Two runs side by side, with the prompts of the first turn in which they differ."""

from contextlib import suppress

from msgspec import structs

from coterie.errors import CoterieError
from coterie.runs.repository import Runs
from coterie.runs.turn_detail import asked
from coterie.views.compare import Comparison
from coterie.views.compare import compare as compare_records


def compare(a: tuple[Runs, str], b: tuple[Runs, str]) -> Comparison:
    """The runs *a* and *b*, each addressed by its id among runs; they may be kept in different places.

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read.
    """
    journals = [runs.journal(run) for runs, run in (a, b)]
    found = compare_records(*(journal.records for journal in journals))
    prompts = ["", ""]
    for n, (journal, (runs, _)) in enumerate(zip(journals, (a, b), strict=True)):
        with suppress(CoterieError):  # the turn did not begin there
            prompts[n] = asked(journal, found.first, runs).prompt if found.first else ""
    return structs.replace(found, prompts=(prompts[0], prompts[1]))
