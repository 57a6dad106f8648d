"""Records of the files that runs work on, and of git work trees."""

from msgspec import Struct

from coterie.journal.records.base import Record


class TreeSaved(Record, frozen=True, kw_only=True, tag="tree.saved", gc=False):
    """A snapshot of the files when an attempt of a turn had ended, before anything followed from it.

    Attributes:
        commit: The git commit that holds them; empty: they could not be kept.
        problem: Why not, or why some are not in it.
        apart: They are those of a wave's branch, which has its own.
        bundles: On a cluster, the git bundles that lead to the commit, by hash.
        after: On a cluster, the commits that the attempt began with.
        lost: On a cluster, what the attempt left is gone with its node; a completion that it emitted does not count.
    """

    turn: str
    attempt: int
    commit: str = ""
    problem: str = ""
    apart: bool = False
    bundles: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    lost: bool = False


class TreePosition(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a git work tree is.

    Attributes:
        top: Its topmost folder; *repository* is git's folder of the whole repository.
        head: The commit that is checked out, on *branch*; empty: on none.
        main: The commit that is checked out in the repository's main work tree, if that is another one.
    """

    top: str
    repository: str
    head: str = ""
    branch: str = ""
    main: str = ""


class TreeAttested(Record, frozen=True, kw_only=True, tag="tree.attested", gc=False):
    """Where the git work tree of an attempt was *before* and *after* it; None: there was none.

    *problem*: how the attempt left its tree, which made it fail.
    """

    turn: str
    attempt: int
    before: TreePosition | None = None
    after: TreePosition | None = None
    problem: str = ""


class KeptTree(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The work of the branch *turn* of a wave, which stays where it is: at *path*, on a git *branch*.

    *files* are those in which it disagrees with what its loop has.
    """

    turn: str
    path: str
    branch: str
    reason: str = ""
    files: tuple[str, ...] = ()


class TreesJoined(Record, frozen=True, kw_only=True, tag="trees.joined", gc=False):
    """The files of a wave's branches came back to those of its loop: those of *turns* did, *kept* did not.

    *problem*: why git could do nothing.
    """

    turns: tuple[str, ...] = ()
    kept: tuple[KeptTree, ...] = ()
    problem: str = ""


class TreeMade(Record, frozen=True, kw_only=True, tag="tree.made", gc=False):
    """The git work tree of *run* is ready: its files in *path*, on the git *branch*, begin at the commit *base*."""

    run: str
    path: str
    branch: str
    base: str = ""


MERGE_CONFLICT = "merge_conflict"
"""The reason of a run that failed because its work, which is complete, could not be merged."""


class TreeMerged(Record, frozen=True, kw_only=True, tag="tree.merged", gc=False):
    """A run that completes merged its work tree, or could not.

    Attributes:
        status: `merged`, `conflict` or `blocked`; the last two end the run with `merge_conflict`.
        path: The files of the work tree, and *branch* its git branch.
        into: The branch that receives the work, and *commit* where it was moved to.
        files: The files in conflict.
        reason: Why the work is not merged.
    """

    status: str
    path: str
    branch: str
    into: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    reason: str = ""


class TreeCleared(Record, frozen=True, kw_only=True, tag="tree.cleared", gc=False):
    """The files of the run's work tree were removed, and its *branch* too unless it is *kept*.

    *problem*: why they could not be removed.
    """

    path: str
    branch: str
    kept: bool = False
    problem: str = ""
