"""`coterie simulate --accuracy`: what a pattern would buy, and at what cost, if its agents were as good as assumed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.output import say, say_json
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
    """Compare the options of the team of *plan*, and show what each is worth.

    Raises:
        UsageError: If it is no pattern, or what is assumed cannot be.
    """
    from coterie.cli.text import laboratory as text
    from coterie.testing.lab import RUNS, compare, picture

    found = compare(plan, assumptions(accuracy, assumed), runs=runs or RUNS, seed=seed, told=_tell)
    _tell("")
    if as_json:
        say_json(found)
    else:
        say(text.compared(found))
    if svg is not None:  # last: what took its time is said even where this cannot be written
        svg.write_text(picture(found), encoding="utf-8")
    return 0


def assumptions(accuracy: str, assumed: dict[str, Any]) -> "Assumptions":
    """What `--accuracy 0.7,checker=0.9/0.8` and the options beside it assume."""
    from coterie.testing.simulated_agents import Assumptions

    said: dict[str, Skill] = {}
    for word in accuracy.split(","):
        slot, named, value = (part.strip() for part in word.rpartition("="))
        if named and not slot:
            raise UsageError(f"--accuracy: {word!r} names no slot; write 0.7 for all, slot=0.7 for one")
        if slot in said:
            raise UsageError(f"--accuracy says twice how good {slot or 'everybody'} is; write it once")
        said[slot] = _skill(word, value)
    if "" not in said:
        raise UsageError(f"--accuracy {accuracy!r} says nothing of the other slots; write --accuracy 0.7,{accuracy}")
    skill = said.pop("")
    return Assumptions(skill=skill, skills=said, **assumed)


def _skill(word: str, value: str) -> "Skill":
    from coterie.testing.simulated_agents import Skill

    try:
        return Skill(*map(float, value.split("/", 1)))
    except ValueError:
        raise UsageError(f"--accuracy: {word!r} is no accuracy; write 0.7, slot=0.7 or slot=0.9/0.7") from None


def _tell(option: str) -> None:
    """Say on a terminal what is under way."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{option}")
        sys.stderr.flush()
