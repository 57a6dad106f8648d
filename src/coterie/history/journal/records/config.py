"""Records of plans that were read again."""

from coterie.history.journal.records.base import Record


class ConfigChanged(Record, frozen=True, kw_only=True, tag="config.changed", gc=False):
    """The plan was read again.

    Attributes:
        plan: The new plan as JSON text.
        keys: The names of the changed settings or parts.
        diff: The changes line by line, for people.
        warnings: New warnings about the files.
    """

    plan: str
    plan_hash: str = ""
    keys: tuple[str, ...] = ()
    diff: str = ""
    warnings: tuple[str, ...] = ()


class ConfigHeld(ConfigChanged, frozen=True, kw_only=True, tag="config.held", gc=False):
    """The plan was read again; changes that weaken protection and may come from an agent were held back.

    Attributes:
        held: All settings held back now, each with its name, the old value, which stays, and the new one.
    """

    held: tuple[tuple[str, str, str], ...] = ()


class ConfigRejected(Record, frozen=True, kw_only=True, tag="config.rejected", gc=False):
    """The plan could not be read again; the last good one stays."""

    reason: str


class ConfigKept(Record, frozen=True, kw_only=True, tag="config.kept", gc=False):
    """The plan was read again and has not changed.

    Attributes:
        warnings: New warnings about the files.
    """

    warnings: tuple[str, ...] = ()


ConfigAnswer = ConfigChanged | ConfigRejected | ConfigKept
"""The possible results of reading the plan again."""


class PlanReloaded(Record, frozen=True, kw_only=True, tag="plan.reloaded", gc=False):
    """An operator resumed the run under another *plan*, as JSON, which agrees with all earlier decisions."""

    plan: str
    plan_hash: str = ""
