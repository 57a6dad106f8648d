"""The files of a run on a cluster: packed when it is submitted, worked on in git work trees, brought back.

What was submitted is one commit without parents, in a git bundle. A turn begins at the merge of what the turns before
it left (its heads), in a separate work tree, and leaves a commit behind, whose bundle holds what is new in it. So
turns side by side do not see each other's files; what they leave is merged when the next turn begins.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.workspace.trees import git
from coterie.agents.workspace.trees.git import CompletedCall, Repository, checked_out, in_thread, readable
from coterie.agents.workspace.trees.merge import compute_merge
from coterie.agents.workspace.trees.obstacles import shaping_changes
from coterie.agents.workspace.trees.refs import REFS, refs_of
from coterie.agents.workspace.trees.report import lost_commits, unsigned_commit
from coterie.agents.workspace.trees.signing import commit_signed
from coterie.agents.workspace.trees.snapshots import excluded, outside, write_files
from coterie.agents.workspace.trees.worktree import free_branch
from coterie.base import files
from coterie.base.ids import folder_name
from coterie.errors import CoterieError, GitFailed, UsageError
from coterie.execution.cluster.preparation import LARGEST, NO_NEEDS, TreeNeeds, pack_copies
from coterie.execution.kinds import kind_of
from coterie.history.journal.export import Export
from coterie.history.journal.records import Record, TreeSaved
from coterie.team.options.backends import REGISTRY
from coterie.team.options.secret_files import is_secret
from coterie.team.planning.plan import NO_TREE_PLAN, Plan, TreePlan

BRANCHES = "coterie"
"""The folder of the branches of runs, in the store and where they are brought back."""
SHOWN = 5
_USING_FILES = frozenset(name for name, entry in REGISTRY.items() if entry.uses_files)


class Head(Struct, frozen=True):
    """A state of the files: a commit, and the bundles that lead to it from the beginning, in order."""

    commit: str
    bundles: tuple[str, ...]


class RunFiles(Struct, frozen=True, kw_only=True):
    """The files of a run.

    Attributes:
        root: Their folder where the run was submitted; *cwd* is the folder below it in which agents work.
        base: The commit without parents that holds what was submitted, on *onto*, which was checked out there; empty:
            nothing was, or an earlier release did not say.
        heads: What turns have left that no later one has taken up.
        needs: What prepares the tree of each turn.
    """

    root: str
    cwd: str = ""
    base: str
    onto: str = ""
    heads: tuple[Head, ...]
    needs: TreeNeeds = NO_NEEDS


def works_on_files(plan: Plan) -> bool:
    """Whether a program of *plan* may need the files around it: not if only models and people work."""
    if kind_of(plan).project.place is not None:
        return True
    return any(
        agent.backend in _USING_FILES
        or agent.steps
        or agent.reads
        or agent.gates
        or (agent.child is not None and works_on_files(agent.child))
        for agent in plan.agents.values()
    )


def around(plan: Plan, cwd: Path) -> Path:
    """The folder whose files the agents of *plan* need: *cwd*, unless the team's file lies elsewhere."""
    repository = git.find(cwd)
    root = repository.top if repository is not None else cwd
    return cwd if not plan.folder or Path(plan.folder).is_relative_to(root) else Path(plan.folder)


# -- where it is submitted --------------------------------------------------------------------------------------------


async def pack(
    folder: Path, export: Export, include: Sequence[Path] = (), wanted: TreePlan = NO_TREE_PLAN, sandbox: str = "off"
) -> tuple[RunFiles, list[str]]:
    """Put the files around *folder* into the export: its git work tree with what is not committed, or else the folder.

    A file that git does not know and that looks like a secret is left out, unless it is or lies in one of *include*.

    Args:
        wanted: What the trees of its turns get besides; *sandbox* is that of the commands.

    Returns:
        The files, and the paths of what was left out, relative to *folder*.

    Raises:
        UsageError: If they are too large, one of *include* is not there, or a branch is in the way of those of runs.
    """
    place, bundle, copies, secrets = await in_thread(_pack, folder, [_there(path) for path in include], wanted)
    archive = await export.put_blob(copies) if copies else ""
    needs = replace(
        place.needs, copy=wanted.copy if archive else (), archive=archive, setup=wanted.setup, sandbox=sandbox
    )
    return replace(place, heads=(Head(place.base, (await export.put_blob(bundle),)),), needs=needs), secrets


def _there(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"--include {path}: there is no such file or folder")
    path = Path(os.path.abspath(path))
    return path.parent.resolve() / path.name  # a link travels as one


def _pack(folder: Path, include: Sequence[Path], wanted: TreePlan) -> tuple[RunFiles, bytes, bytes, list[str]]:
    with tempfile.TemporaryDirectory() as work:
        env = {"GIT_INDEX_FILE": f"{work}/index"} | git.identity()
        repository = git.find(folder)
        root, onto = repository.top if repository is not None else folder, ""
        if repository is None:
            _refuse_large(folder)
            checked(folder, "init", "--quiet", "--bare", f"{work}/git")
            env |= {"GIT_DIR": f"{work}/git", "GIT_WORK_TREE": str(folder)}
        elif onto := repository.commit_of("HEAD"):
            if repository.commit_of(f"refs/heads/{BRANCHES}"):
                todo = f"git branch -m {BRANCHES} NAME"
                raise UsageError(
                    f"the branch {BRANCHES!r} is in the way of {BRANCHES}/RUN, the branch of a run: {todo}"
                )
            checked(root, "read-tree", "HEAD", env=env)
        place = repository or Repository(top=folder, own=Path(), common=Path())
        own = excluded(
            place, [top / name for top in dict.fromkeys((root, folder)) for name in (".coterie", ".autoloop")]
        )
        listing = ("ls-files", "--others", "--exclude-standard", "-z", "--", ":/", *own)
        others = checked(root, *listing, env=env if repository is None else {})
        secrets = [
            name
            for name in filter(None, others.out.split("\0"))
            if is_secret(name) and not any((root.resolve() / name).is_relative_to(path) for path in include)
        ]
        tree = written(place, (*own, *map(outside, secrets)), env)
        base = checked(root, "commit-tree", tree, "-m", "as it was submitted", env=env).out.strip()
        ref = f"{REFS}/base/{base}"
        checked(root, "update-ref", ref, base, env=env)
        checked(root, "bundle", "create", "--quiet", f"{work}/bundle", ref, env=env)
        copies, more = b"", list[str]()
        if wanted.copy:
            names = checked(root, "ls-tree", "-r", "--name-only", "-z", base, env=env).out.split("\0")
            copies, more = pack_copies(root.resolve(), wanted, names, include)
        left_out = [os.path.relpath(root / name, folder) for name in (*secrets, *more)]
        cwd = str(folder.relative_to(root)) if folder != root else ""
        ignored = repository.common / "info" / "exclude" if repository is not None else None
        text = files.read(ignored, LARGEST).decode(errors="replace") if ignored and ignored.is_file() else ""
        needs = TreeNeeds(ignored="\n".join(line for line in text.splitlines() if line[:1] not in ("", "#")))
        packed = RunFiles(root=str(root), cwd=cwd, base=base, onto=onto, heads=(), needs=needs)
        return packed, read_bundle(Path(f"{work}/bundle")), copies, left_out


def _refuse_large(folder: Path) -> None:
    size = 0
    for above, _, names in os.walk(folder):
        size += sum(os.lstat(os.path.join(above, name)).st_size for name in names)
        if size > LARGEST:
            raise UsageError(
                f"{folder} holds more than {LARGEST >> 20} MB, and is in no git work tree: put it into one"
            )


async def bring_back(run: str, place: RunFiles, export: Export, guards: Sequence[str] = ()) -> list[str]:
    """Make a branch of what *run* left, on the commit that it began with, or a folder where there is no git work tree.

    If the user has rewritten that commit since, the branch has only what the run changed, on what is checked out.

    Args:
        guards: The files of the team; changes of those, and of files that later runs obey, are named.

    Returns:
        Lines about where it is, for people; none if the run changed nothing, or was submitted from another machine.

    Raises:
        FilesConflict: If its parts cannot be merged.
    """
    root = Path(place.root)
    there, repository = await in_thread(_look, root)
    if repository is not None and repository.commit_of(place.base):
        await fetch(repository.top, place, export, refs_of(run))
        where = await in_thread(_branch, repository, run, place)
        return await in_thread(list, _described(repository, run, place, where, guards))
    if not there or repository is not None or place.heads[-1].commit == place.base:
        return []
    target = root / ".coterie" / "work" / folder_name(run)
    with tempfile.TemporaryDirectory() as store:
        await in_thread(checked, root, "init", "--quiet", "--bare", store)
        await fetch(Path(store), place, export, REFS)
        files.make_folder(target.parent)
        await in_thread(add_tree, Path(store), place, target)
        (target / ".git").unlink()
    return [f"its work is in {target}"]


def _described(repository: Repository, run: str, place: RunFiles, where: str, guards: Sequence[str]) -> Iterator[str]:
    commit = repository.commit_of(_brought(run)) if where else ""
    if where:
        yield f"its work is {where}"
    if commit:
        yield from unsigned_commit(repository, commit)
        if names := shaping_changes(repository, place.base, commit, guards):
            yield f"it changes {names}, which shapes runs: look before you merge it, git show {commit[:12]}"
    yield from lost_commits(repository, run)


def how_to_merge(run: str, place: RunFiles) -> str:
    """The command that merges what `bring_back` made of *run*; empty if what is checked out has it."""
    repository = _look(Path(place.root))[1]
    commit = repository.commit_of(_brought(run)) if repository is not None else ""
    if repository is None or not commit or repository.is_ancestor(commit, "HEAD"):
        return ""
    name = _branch_at(repository, run, commit)
    return f"git merge {name}" if name else _taking(commit)


def _taking(commit: str) -> str:
    return f"git cherry-pick {commit}"


def _look(root: Path) -> tuple[bool, Repository | None]:
    return root.is_dir(), git.find(root) if root.is_dir() else None


def _branch(repository: Repository, run: str, place: RunFiles) -> str:
    with _work_tree(repository.top, place, Path(tempfile.mkdtemp()) / "tree") as tree:
        left = checked(tree, "rev-parse", "HEAD^{tree}").out.strip()
    if left == repository.tree_of(place.base):
        return ""
    now, known = repository.commit_of("HEAD"), repository.commit_of(_brought(run))
    onto, message = place.onto or now, f"The work of {run}\n"
    commit = commit_signed(repository, left, (onto,) if onto else (), message)
    if onto and not repository.is_ancestor(onto, now):
        merged = compute_merge(repository, now, commit, "squash", message, onto)
        if merged.files:
            repository.output("update-ref", _brought(run), commit)
            names = ", ".join(merged.files[:SHOWN])
            return f"in a commit, since it and what you rewrote changed the same places ({names}): {_taking(commit)}"
        commit = merged.commit
    if known and repository.tree_of(known) == repository.tree_of(commit):
        commit = known
    name = _branch_at(repository, run, known) if known else ""
    if not name and commit == known and repository.is_ancestor(commit, "HEAD"):
        return f"in {commit[:12]}, which is merged"
    if not name or (commit != known and checked_out(repository, f"refs/heads/{name}") is not None):
        name, known = free_branch(repository, f"{BRANCHES}/{run}"), ""  # the other one has what a person did there
    moves = f"update refs/heads/{name} {commit} {known or '0' * len(commit)}\nupdate {_brought(run)} {commit}\n"
    repository.output("update-ref", "--stdin", stdin=moves)  # both, or after a kill a second branch would be made
    return f"on the branch {name}"


def _brought(run: str) -> str:
    """The ref of the commit that was brought back last."""
    return f"{refs_of(run)}/brought"


def _branch_at(repository: Repository, run: str, commit: str) -> str:
    """The branch of *run* that has *commit*; empty if there is none, or a person has worked on it."""
    patterns = (f"refs/heads/{BRANCHES}/{run}", f"refs/heads/{BRANCHES}/{run}-*")
    return repository.output(
        "for-each-ref", "--count=1", f"--points-at={commit}", "--format=%(refname:lstrip=2)", *patterns
    )


# -- what turns leave ------------------------------------------------------------------------------------------------


def merged(place: RunFiles, begun: RunFiles, left: Head) -> RunFiles:
    """*place* once a turn that began at *begun* has left a head."""
    heads = [head for head in place.heads if head not in begun.heads and head != left]
    return replace(place, heads=(*heads, left))


def files_after(place: RunFiles, records: Iterable[Record]) -> RunFiles:
    """The files of the run that *place* belongs to after *records* of it and its child runs, in any order."""
    first = Head(place.base, place.heads[0].bundles[:1])
    found = replace(place, heads=(first,))
    saved = [one for one in records if isinstance(one, TreeSaved) and one.bundles]
    for one in sorted(saved, key=lambda one: (one.at, one.seq)):
        begun = tuple(head for head in found.heads if head.commit in one.after)
        found = merged(found, replace(found, heads=begun), Head(one.commit, one.bundles))
    return found


async def fetch(store: Path, place: RunFiles, export: Export, top: str) -> None:
    """Bring the commits that the heads of *place* need, with refs below *top*, unless *store* has them already."""
    words = ("for-each-ref", "--format=%(refname:lstrip=-1)", f"{top}/bundles/")
    known = {*(await in_thread(checked, store, *words)).out.split()}
    if (await in_thread(call, store, "cat-file", "-e", f"{place.base}^{{commit}}")).status == 0:
        known.update(place.heads[0].bundles[:1])
    for bundle in bundles(place):
        if bundle not in known:
            await in_thread(_unbundle, store, await export.blob(bundle), top)
            await in_thread(checked, store, "update-ref", f"{top}/bundles/{bundle}", place.base)


def _unbundle(store: Path, data: bytes, top: str) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        checked(store, "fetch", "--quiet", "--no-tags", file.name, f"+{REFS}/*:{top}/*")


@contextmanager
def _work_tree(store: Path, place: RunFiles, tree: Path) -> Iterator[Path]:
    add_tree(store, place, tree)
    try:
        yield tree
    finally:
        remove_tree(store, tree)


def add_tree(store: Path, place: RunFiles, tree: Path) -> None:
    """Check out at *tree* the merge of the heads of *place*."""
    if tree.exists():
        remove_tree(store, tree)
    first, *others = sorted(head.commit for head in place.heads)
    checked(store, "worktree", "add", "--quiet", "--force", "--detach", str(tree), first)
    for other in others:
        if call(tree, "merge", "--quiet", "--no-verify", "-m", "what turns left side by side", other).status:
            names = call(tree, "diff", "--name-only", "--diff-filter=U", "-z").out.split("\0")
            remove_tree(store, tree)
            raise FilesConflict([readable(name) for name in names if name])


def remove_tree(store: Path, tree: Path) -> None:
    """Remove what `add_tree` made."""
    files.discard(tree)
    call(store, "worktree", "prune")


class FilesConflict(CoterieError):
    """Turns that worked side by side left different lines in the same files."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"turns side by side changed the same lines of {', '.join(names) or 'a file'}")


def bundles(place: RunFiles) -> tuple[str, ...]:
    """The bundles that lead to the heads of *place*, in order."""
    return tuple(dict.fromkeys(bundle for head in place.heads for bundle in head.bundles))


def read_bundle(path: Path) -> bytes:
    """The bundle in *path*.

    Raises:
        UsageError: If it is too large to travel.
    """
    data = path.read_bytes()
    if len(data) > LARGEST:
        raise UsageError(f"the files of the run are {len(data) >> 20} MB, and at most {LARGEST >> 20} MB can travel")
    return data


def call(folder: Path, *words: str, env: dict[str, str] | None = None) -> CompletedCall:
    """Call git as Coterie; any exit status is a result."""
    return git.call(folder, *words, env=git.identity() | (env or {}))


def written(repository: Repository, without: tuple[str, ...], env: dict[str, str]) -> str:
    """The id of a git tree with all files of *repository*."""
    tree, incomplete = write_files(repository, without, env)
    if incomplete:
        raise GitFailed(("add",), 1, incomplete)
    return tree


def checked(folder: Path, *words: str, env: dict[str, str] | None = None) -> CompletedCall:
    """Call git as Coterie.

    Raises:
        GitFailed: If its status is not 0.
    """
    done = call(folder, *words, env=env)
    if done.status:
        raise GitFailed(words, done.status, done.err or done.out)
    return done
