"""Records of plans that were read again."""

from coterie.journal.records.base import Record


class ConfigChanged(Record, frozen=True, kw_only=True, tag="config.changed", gc=False):
    """The plan was read again.

    Attributes:
        plan: The new plan as JSON text.
        keys: What differs, by the name of the setting where it has one.
        diff: The same line by line, for people.
        warnings: New warnings about the files.
    """

    plan: str
    plan_hash: str = ""
    keys: tuple[str, ...] = ()
    diff: str = ""
    warnings: tuple[str, ...] = ()


class ConfigHeld(ConfigChanged, frozen=True, kw_only=True, tag="config.held", gc=False):
    """The plan was read again, and what is weaker than before and may be an agent's was held back.

    Attributes:
        held: All that is held back now, each with its name, the old value, which stays, and the new one.
    """

    held: tuple[tuple[str, str, str], ...] = ()


class ConfigRejected(Record, frozen=True, kw_only=True, tag="config.rejected", gc=False):
    """The plan could not be read again; the last good one stays."""

    reason: str


class ConfigKept(Record, frozen=True, kw_only=True, tag="config.kept", gc=False):
    """The plan was read again and is what it was.

    Attributes:
        warnings: New warnings about the files.
    """

    warnings: tuple[str, ...] = ()


ConfigAnswer = ConfigChanged | ConfigRejected | ConfigKept
"""What answers the wish to read the plan again."""


class PlanReloaded(Record, frozen=True, kw_only=True, tag="plan.reloaded", gc=False):
    """An operator had the run carried on under another *plan*, as JSON; it agrees with all that was decided before."""

    plan: str
    plan_hash: str = ""
