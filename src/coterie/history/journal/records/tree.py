"""Records of snapshots of files and of git work trees."""

from msgspec import Struct

from coterie.history.journal.records.base import Record


class TreeSaved(Record, frozen=True, kw_only=True, tag="tree.saved", gc=False):
    """A snapshot of the files at the end of an attempt, before the run continued.

    Attributes:
        commit: The git commit with the files; empty: they could not be saved.
        problem: Why they could not be saved, or why some are missing.
        apart: Whether they belong to a wave's branch, which has its own files.
        bundles: On a cluster, the git bundles that lead to the commit, by hash.
        after: On a cluster, the commits that the attempt began with.
        lost: On a cluster, whether the files of the attempt were lost with its node; a completion that it emitted does
            not count then.
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
    """The state of a git work tree.

    Attributes:
        top: Its top folder; *repository* is the repository's git folder.
        head: The commit that is checked out, on *branch*; empty: on none.
        main: The commit that is checked out in the repository's main work tree, if that is a different tree.
    """

    top: str
    repository: str
    head: str = ""
    branch: str = ""
    main: str = ""


class TreeAttested(Record, frozen=True, kw_only=True, tag="tree.attested", gc=False):
    """The state of an attempt's git work tree *before* and *after* it; None: there was none.

    *problem*: how the attempt left its tree, which made it fail; with *voids* nothing that it emitted counts. *notes*:
    what did not reach the user's repository from the agents', or reached it on another branch.
    """

    turn: str
    attempt: int
    before: TreePosition | None = None
    after: TreePosition | None = None
    problem: str = ""
    voids: bool = False
    notes: tuple[str, ...] = ()


class KeptTree(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Unmerged work of the branch *turn* of a wave, which stays at *path*, on a git *branch*.

    *files* are the files in conflict with those of the loop.
    """

    turn: str
    path: str
    branch: str
    reason: str = ""
    files: tuple[str, ...] = ()


class TreesJoined(Record, frozen=True, kw_only=True, tag="trees.joined", gc=False):
    """The files of a wave's branches were merged into those of the loop: those of *turns*, but not *kept*.

    *problem*: why git could not merge.
    """

    turns: tuple[str, ...] = ()
    kept: tuple[KeptTree, ...] = ()
    problem: str = ""


class TreeMade(Record, frozen=True, kw_only=True, tag="tree.made", gc=False):
    """The git work tree of *run* was made in *path*, on the git *branch*, at the commit *base*."""

    run: str
    path: str
    branch: str
    base: str = ""


class TreePrepared(Record, frozen=True, kw_only=True, tag="tree.prepared", gc=False):
    """The work tree of *run* got the files that `worktree.copy` names, and the commands of `worktree.setup` ran there.

    Attributes:
        copied: The files and folders that were copied.
        output: The end of what the commands printed.
        problem: Why it is not ready; empty if it is.
    """

    run: str
    copied: tuple[str, ...] = ()
    output: str = ""
    problem: str = ""


MERGE_CONFLICT = "merge_conflict"
"""The reason of a run that failed because its complete work could not be merged."""


class TreeMerged(Record, frozen=True, kw_only=True, tag="tree.merged", gc=False):
    """A completing run merged its work tree, or could not.

    Attributes:
        status: `merged`, `conflict` or `blocked`; the last two end the run with `merge_conflict`.
        path: The folder of the work tree; *branch* is its git branch.
        into: The branch that receives the work; *commit* is its new commit.
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
    """The files of the run's work tree were removed, and also its *branch*, unless it is *kept*.

    *problem*: why they stay. *ignored*: the files that git ignored and that were removed with them.
    """

    path: str
    branch: str
    kept: bool = False
    problem: str = ""
    ignored: str = ""
