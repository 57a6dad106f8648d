"""Faults of a pattern, not yet located in a file."""

from dataclasses import dataclass

from coterie.diagnostics import Severity


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        code: Stable diagnostic code.
        message: The message.
        where: The part it concerns: `type`, `slots`, `slots.mediator`, `config.max_rounds`.
    """

    code: str
    message: str
    where: str = ""
    severity: Severity = Severity.ERROR
    hint: str = ""
