"""A custom pattern: a second agent checks the answer of the first, and the result has both."""

from collections.abc import Mapping
from typing import Any

from coterie.patterns import Question, Team, pattern


@pattern("second-opinion", key="prompt")
def second_opinion(team: Team, given: Mapping[str, Any]) -> Any:
    """Ask the first slot, then the second about its answer."""
    first, second = team.slots
    answer = yield Question(first, given["prompt"])
    opinion = yield Question(second, f"Somebody was told:\n\n{answer.text}\n\nDo you agree?")
    return f"{answer.text.strip()}\n\n{opinion.text.strip()}"
