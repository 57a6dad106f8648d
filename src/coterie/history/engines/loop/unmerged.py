"""The text of the next prompt about branches of a wave whose work was not merged."""

from coterie.history.journal.records import KeptTree, TreesJoined

FILES_MOST = 20
"""The most files named for each branch."""


def describe_unmerged(record: TreesJoined) -> str:
    """Describe the branches whose work was not merged: why, and where it is."""
    if record.problem:
        return f"The work of the branches could not be merged: {record.problem}"
    return "\n".join(map(_kept, record.kept))


def _kept(one: KeptTree) -> str:
    named = ", ".join(one.files[:FILES_MOST])
    more = f" and {len(one.files) - FILES_MOST} more" if len(one.files) > FILES_MOST else ""
    where = f"it is on the git branch {one.branch}, in {one.path}"
    what = f"conflicts in {named}{more}" if one.files else one.reason
    return f"- The work of {one.turn} was not merged ({what}); {where}."
