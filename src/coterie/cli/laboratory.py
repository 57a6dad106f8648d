"""`coterie simulate --accuracy`: compare the accuracy and cost of the variants of a pattern."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.output import print_result, rewrite
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.planning.plan import Plan
    from coterie.testing.simulated_agents import Assumptions, Skill


def compare_options(
    plan: "Plan",
    accuracy: str,
    assumed: dict[str, Any],
    *,
    runs: int | None,
    seed: int,
    svg: Path | None,
    as_json: bool,
) -> int:
    """Compare the variants of the pattern of *plan* and print the results.

    Raises:
        UsageError: If the team is not a pattern, or the assumptions are invalid.
    """
    from coterie.cli.text.laboratory import compared
    from coterie.testing.lab import RUNS, compare, picture

    found = compare(plan, assumptions(accuracy, assumed), runs=runs or RUNS, seed=seed, told=rewrite)
    rewrite("")
    print_result(as_json, found, lambda: compared(found))
    if svg is not None:  # after the results are printed, in case it cannot be written
        svg.write_text(picture(found), encoding="utf-8")
    return 0


def assumptions(accuracy: str, assumed: dict[str, Any]) -> "Assumptions":
    """Return the assumptions of `--accuracy 0.7,checker=0.9/0.8` and the options *assumed*."""
    from coterie.testing.simulated_agents import Assumptions

    skills: dict[str, Skill] = {}
    for word in accuracy.split(","):
        slot, named, value = (part.strip() for part in word.rpartition("="))
        if named and not slot:
            raise UsageError(f"--accuracy: {word!r} does not name a slot; write 0.7 for all, slot=0.7 for one")
        if slot in skills:
            raise UsageError(f"--accuracy sets the accuracy of {slot or 'all slots'} twice")
        skills[slot] = _skill(word, value)
    if "" not in skills:
        raise UsageError(f"--accuracy {accuracy!r} has no value for the other slots; write --accuracy 0.7,{accuracy}")
    skill = skills.pop("")
    return Assumptions(skill=skill, skills=skills, **assumed)


def _skill(word: str, value: str) -> "Skill":
    from coterie.testing.simulated_agents import Skill

    try:
        return Skill(*map(float, value.split("/", 1)))
    except ValueError:
        raise UsageError(f"--accuracy: {word!r} is not an accuracy; write 0.7, slot=0.7 or slot=0.9/0.7") from None
