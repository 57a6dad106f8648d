"""What is wrong with a pattern, before it has a place in a file."""

from dataclasses import dataclass

from coterie.diagnostics import Severity


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding.

    Attributes:
        code: A stable name for this kind of finding.
        message: A sentence with the facts.
        where: The part it concerns: `type`, `slots`, `slots.mediator`, `config.max_rounds`.
    """

    code: str
    message: str
    where: str = ""
    severity: Severity = Severity.ERROR
    hint: str = ""
