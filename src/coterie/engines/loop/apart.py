"""What the next prompt says of the files of a wave's branches that did not come back."""

from coterie.journal.records import KeptTree, TreesJoined

FILES_MOST = 20
"""Files that are named, of each branch."""


def kept_apart(record: TreesJoined) -> str:
    """Whose files did not come back, why, and where they are."""
    if record.problem:
        return f"None of the branches' files could be brought back: {record.problem}"
    return "\n".join(map(_kept, record.kept))


def _kept(one: KeptTree) -> str:
    named = ", ".join(one.files[:FILES_MOST])
    more = f" and {len(one.files) - FILES_MOST} more" if len(one.files) > FILES_MOST else ""
    where = f"it is on the git branch {one.branch}, in {one.path}"
    what = f"conflicts in {named}{more}" if one.files else one.reason
    return f"- The work of {one.turn} was not merged ({what}); {where}."
