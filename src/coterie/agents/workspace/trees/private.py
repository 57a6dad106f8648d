"""The repository that the agents of a work tree have for themselves: make it, bring work in, fetch work back.

See `coterie.agents.workspace.trees` for the layout. Nothing but this module knows the private repository. It is made
from the user's before an agent works in it. From then on its content is an agent's: no process outside of a sandbox
opens it, where one works, and what comes out of it comes as the stream of `git upload-pack`, whose objects git checks.
"""

import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from coterie.agents.workspace.trees import git
from coterie.agents.workspace.trees.git import CompletedCall, Repository, lines_of
from coterie.agents.workspace.trees.git_command import distinguishes_case
from coterie.agents.workspace.trees.refs import refs_of
from coterie.agents.workspace.trees.repository_lock import locked
from coterie.agents.workspace.trees.stamps import files_below, stamp_of, tip_of
from coterie.agents.workspace.trees.worktree import WorkTree, owner_of, repository_of
from coterie.base import files
from coterie.base.shortages import shortage
from coterie.errors import GitFailed

TIMEOUT = 120.0
"""Seconds that a program may take to read or write a private repository, and that fetching from it may take."""
MOST = 2 << 30
"""Bytes that new commits may have, packed or not; of a new file of git-lfs, too."""
NAME, LINK, REFS = "git", "link", "refs"
"""In the folder of a work tree: the private repository, what `.git` says of it, and the refs that were copied."""
OBJECTS = "objects"
"""In that of a checkout: where its private repository finds the user's objects, since it hides their own place."""
_LARGEST = 1 << 30
_SYSTEM = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64", "nix", "proc", "sys", "dev"})
"""The folders of the system that git may need; a process that reads a private repository sees no other."""
_COPIED = re.compile(
    r"user\..+|core\.(attributesfile|autocrlf|eol|filemode|ignorecase|longpaths|precomposeunicode|quotepath|safecrlf|symlinks)"
    r"|core\.sparsecheckout(cone)?|remote\..+\.(url|pushurl|fetch|promisor|partialclonefilter)|extensions\.(objectformat|partialclone)"
    r"|branch\..+\.(remote|merge)|submodule\..+\.(url|active|branch)|lfs\.(?!.*customtransfer).+",
    re.DOTALL,
)
"""The settings of the user's repository that the private one has, too: none of them names a program."""
_CLEAN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor=false' 'core.hooksPath={os.devnull}'",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
_LOOK = """
git symbolic-ref -q HEAD || echo
git rev-parse -q --verify 'HEAD^{commit}' || echo
git rev-parse -q --verify "refs/heads/$1^{commit}" || echo
exec git rev-list --all --reflog --parents --ignore-missing --stdin
"""
_SIZE = """
git rev-list --objects --missing=allow-any --stdin | cut -d ' ' -f 1 | git cat-file --batch-check='%(objectsize)'
"""
_AT_MOST = """
import os, sys
left = int(sys.argv[1])
while left > 0 and (data := os.read(0, min(left, 1 << 16))):
    left -= len(data)
    while data:
        data = data[os.write(1, data) :]
if left <= 0 and os.read(0, 1):
    os.write(2, b"the stream of objects is longer than %s bytes\\n" % sys.argv[1].encode())
"""  # `head` would keep what it reads for a while, and git's words for a cut depend on where it falls
_DROP = 'while read -r name id; do git update-ref -d "$name" "$id"; done'
_SYNCHRONIZE = """
[ -z "$3" ] || { rm -f ./*.lock; find refs -name '*.lock' -exec rm -f {} +; }
git update-ref "refs/heads/$1" "$2" || exit
[ "$(git symbolic-ref -q HEAD)" != "refs/heads/$1" ] || exec git read-tree --reset "$2"
"""


class PrivateState(Struct, frozen=True, kw_only=True):
    """What an attempt left in the private repository.

    Attributes:
        head: The commit that is checked out, on *branch*; empty: on none.
        tip: The commit of the run's branch; empty if the branch is gone.
    """

    head: str
    branch: str
    tip: str


def folder_of(tree: WorkTree) -> Path:
    """The private repository of *tree*."""
    return Path(tree.path).with_name(NAME)


def make(own: Repository, tree: WorkTree) -> str:
    """Make the private repository of *tree*, in which no agent has worked, at its branch, whose commit is returned.

    *own* is the owner's repository.
    """
    home, target = folder_of(tree).parent, folder_of(tree)
    branch = f"refs/heads/{tree.branch}"
    lines = lines_of(copied_refs(own))
    tip = next((line.split(" ")[0] for line in lines if line.endswith(f" {branch}")), "")
    refs = "\n".join(line for line in lines if not line.endswith(f" {branch}"))
    part = create(own, target, f"ref: {branch}", refs, own.common / "objects")
    (part / branch).parent.mkdir(parents=True, exist_ok=True)
    (part / branch).write_text(f"{tip}\n")
    files.write(home / REFS, refs.encode("utf-8", "surrogateescape"))
    files.write(home / LINK, f"gitdir: {target}\n".encode())
    own.output("update-ref", f"{refs_of(tree.run)}/base/{tree.branch}", tree.base)
    part.rename(target)
    return tip


def copied_refs(own: Repository) -> str:
    """The refs of the user's repository that a private one gets, as the lines of `packed-refs`."""
    form = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
    form = f"%(if)%(symref)%(then)%(else){form}%(end)"
    places = ("refs/heads", "refs/tags", "refs/remotes", "refs/notes")
    return "\n".join(own.lines("for-each-ref", f"--format={form}", *places))


def create(own: Repository, target: Path, head: str, refs: str, objects: Path) -> Path:
    """Make a private repository beside *target*, which is removed: it has the user's index, settings and *refs*.

    Args:
        head: What its `HEAD` says.
        objects: Where it finds the user's objects.

    Returns:
        Its path; the caller completes it and moves it to *target*.
    """
    part = target.with_name(f"{target.name}.part")
    for old in (part, target):
        files.discard(old)
    (part / "refs").mkdir(parents=True)
    for name, text in {
        "HEAD": head,
        "packed-refs": "\n".join(["# pack-refs with: peeled fully-peeled sorted ", *lines_of(refs)]),
        "objects/info/alternates": borrowed(objects),
        "config": "".join(_settings(own)),
    }.items():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_bytes(f"{text}\n".encode("utf-8", "surrogateescape"))
    sources = [own.common / "shallow", *(own.common / "info" / name for name in ("attributes", "exclude"))]
    sources.append(own.own / "info" / "sparse-checkout")
    for source in [*sources, own.own / "index", *own.own.glob("sharedindex.*")]:
        copy = part / ("info" if source.parent.name == "info" else "") / source.name
        if source.is_file():
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, copy)
    _exclude(own, part / "info" / "exclude")
    return part


def _exclude(own: Repository, copy: Path) -> None:
    """Let *copy*, which has the user's `info/exclude`, also have `core.excludesFile`, which agents might not see."""
    named = own.call("config", "--type=path", "--get", "core.excludesFile").out.removesuffix("\n")
    with suppress(OSError):
        first = files.read(own.top / named, _LARGEST, follow=True) if named else b""
        then = copy.read_bytes() if copy.exists() else b""
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(first + b"\n" + then)


def _settings(own: Repository) -> Iterator[str]:
    """The lines of a private repository's configuration."""
    yield "[core]\n\tbare = false\n"
    fields, version = own.output("config", "--list", "--show-scope", "-z").split("\0"), 0
    wrong = "core.ignorecase" if distinguishes_case(own.top) else ""
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, has_value, value = entry.partition("\n")
        if scope not in ("local", "worktree") or key == wrong or not _COPIED.fullmatch(key):
            continue
        section, _, name = key.rpartition(".")
        section, _, rest = section.partition(".")
        inner = f' "{_quoted(rest)}"' if rest else ""
        version |= section == "extensions"
        yield f"[{section}{inner}]\n\t{name}" + (f' = "{_quoted(value)}"\n' if has_value else "\n")
    yield f"[core]\n\trepositoryformatversion = {version}\n"


def borrowed(objects: Path) -> str:
    """The line of `objects/info/alternates` for the folder *objects*."""
    return f'"{_quoted(str(objects))}"' if "\n" in str(objects) else str(objects)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def enter(tree: WorkTree, *, alone: bool = False) -> PrivateState:
    """Fetch back what *tree*'s agents did, and bring in what its owner did since: an agent can begin to work then.

    A private repository that is gone or damaged is made again; what is left of it stays beside it.

    Args:
        alone: Whether no other attempt works there, so that locks were left by killed processes.

    Raises:
        GitFailed: If git cannot.
    """
    own = owner_of(tree)
    if (known := _unchanged(own, tree)) is not None:
        return known
    with locked(own.common):
        _readdress(own, tree)
        try:
            state = fetch_back(tree)
        except GitFailed:
            if os.path.lexists(folder_of(tree)):
                free = (folder_of(tree).with_name(f"{NAME}.damaged-{n}") for n in count(1))
                folder_of(tree).rename(next(path for path in free if not os.path.lexists(path)))
            tip = make(own, tree)
            state = PrivateState(head=tip, branch=tree.branch, tip=tip)
            return _remembered(tree, _stamp(own, tree), state)
        tip = own.output("rev-parse", f"refs/heads/{tree.branch}")
        if tip != state.tip:
            words = ("sh", "-c", _SYNCHRONIZE, "sh", tree.branch, tip, "alone" if alone else "")
            done = confined(own, folder_of(tree), words, writes=True)
            if done.status:
                raise GitFailed(("update-ref",), done.status, done.err)
    at_branch = state.branch == tree.branch
    return PrivateState(head=tip if at_branch else state.head, branch=state.branch, tip=tip)


_SEEN: dict[str, tuple[bytes | None, PrivateState]] = {}
"""What this process last saw of the private repositories that are there, with the stamp that they had then."""


def _remembered(tree: WorkTree, stamp: bytes | None, state: PrivateState) -> PrivateState:
    for gone in [key for key in list(_SEEN) if not os.path.lexists(key)]:
        _SEEN.pop(gone, None)
    _SEEN[_key(tree)] = stamp, state
    return state


def look(tree: WorkTree) -> PrivateState:
    """What an attempt left in the private repository of *tree*: fetched back, unless nothing changed.

    Raises:
        GitFailed: If git cannot.
    """
    return _unchanged(owner_of(tree), tree) or fetch_back(tree)


def conflicts(tree: WorkTree) -> list[str]:
    """The files in which agents of *tree* left a conflict that is still marked as git marks it.

    Raises:
        GitFailed: If git cannot.
    """
    words = ("git", "ls-files", "--unmerged", "-z")
    if not folder_of(tree).exists() or (own := repository_of(tree)) is None:
        return []
    found = confined(own, folder_of(tree), words)
    if found.status:
        raise GitFailed(words, found.status, found.err)
    names = {entry.partition("\t")[2] for entry in found.out.split("\0") if entry}
    return sorted(name for name in names if _is_marked(Path(tree.path), name))


def _is_marked(top: Path, name: str) -> bool:
    with suppress(OSError):
        return _MARK.search(files.read_below(top, name.split("/"), _LARGEST)) is not None
    return False


def _unchanged(own: Repository, tree: WorkTree) -> PrivateState | None:
    """What was last seen in the private repository of *tree*; None if it, or the run's branch, is not as it was."""
    stamp, state = _SEEN.get(_key(tree), (None, None))
    if state is None or state.tip != tip_of(own.common, f"refs/heads/{tree.branch}"):
        return None
    return state if stamp is not None and stamp == _stamp(own, tree) else None


def _key(tree: WorkTree) -> str:
    return str(folder_of(tree))


def _stamp(own: Repository, tree: WorkTree) -> bytes | None:
    """The stamp of all that decides what a fetch brings back; the index of the agents does not, which git refreshes."""
    place, objects = folder_of(tree), own.common / "objects"
    inside = (path for path in files_below(place) if path not in (f"{place}/index", f"{place}/index.lock"))
    shared = (f"{objects}/{name}" for name in sorted(os.listdir(objects)))  # the user may have pruned commits
    return stamp_of((*inside, *shared)) if place.is_dir() and not place.is_symlink() else None


def _readdress(own: Repository, tree: WorkTree) -> None:
    """Let a private repository that was moved with its project find the user's objects where they are now."""
    place, wanted = folder_of(tree).with_name(LINK), f"gitdir: {folder_of(tree)}\n".encode()
    if place.is_file() and files.read(place, _LARGEST) != wanted:
        words = ("sh", "-c", "printf '%s\\n' \"$1\" > objects/info/alternates", "sh", borrowed(own.common / "objects"))
        if not confined(own, folder_of(tree), words, writes=True).status:
            files.write(place, wanted)


def drop_pruned(own: Repository, place: Path) -> None:
    """Drop the copied refs of the private repository in *place* whose commits the user's no longer has."""
    text = files.read(place.with_name(REFS), _LARGEST).decode("utf-8", "surrogateescape")
    refs = [line.split(" ", 1) for line in lines_of(text) if not line.startswith("^")]
    found = own.lines("cat-file", "--batch-check", stdin="".join(f"{commit}\n" for commit, _ in refs))
    lost = [f"{name} {commit}\n" for (commit, name), line in zip(refs, found, strict=True) if line.endswith(" missing")]
    if lost:
        confined(own, place, ("sh", "-c", _DROP), stdin="".join(lost), writes=True)


def fetch_back(tree: WorkTree) -> PrivateState:
    """Fetch the run's branch and every commit that only the private repository of *tree* has; move the branch.

    A commit that is not in the branch gets a ref `refs/coterie/RUN/lost/N`.

    Raises:
        GitFailed: If git cannot; nothing has moved then.
    """
    own, private = owner_of(tree), folder_of(tree)
    if private.is_symlink() or not private.is_dir():
        raise GitFailed(("fetch",), 1, f"{private}, the repository of the agents, is gone")
    with locked(own.common):
        drop_pruned(own, private)
        stamp = _stamp(own, tree)
        known = own.lines("for-each-ref", "--format=^%(objectname)")
        words = ("sh", "-c", _LOOK, "sh", tree.branch)
        looked = confined(own, folder_of(tree), words, stdin="\n".join([*known, f"^{tree.base}", ""]))
        lines = looked.out.split("\n")
        if looked.status or len(lines) < 3:
            raise GitFailed(("rev-list",), looked.status, f"{private} cannot be read: {looked.err}")
        branch, head, tip = lines[0].removeprefix("refs/heads/"), lines[1], lines[2]
        lost = [commit for commit in ends_of(lines[3:]) if commit != tip]
        if tip:
            _take(own, tree, tip, lost)
        carry_over(private, own.common)
        return _remembered(tree, stamp, PrivateState(head=head, branch=branch, tip=tip))


def ends_of(lines: Sequence[str]) -> list[str]:
    """The commits that are no parent of another, of *lines* as `git rev-list --parents` prints them."""
    commits = [line.split() for line in lines if line]
    inner = {parent for _, *parents in commits for parent in parents}
    return [commit for commit, *_ in commits if commit not in inner]


def _take(own: Repository, tree: WorkTree, tip: str, lost: Sequence[str]) -> None:
    """Fetch *tip* and *lost*, and let the run's branch and the owner's index follow."""
    top, ref = refs_of(tree.run), f"refs/heads/{tree.branch}"
    before = own.commit_of(ref)
    behind = before == tip or (before and own.is_ancestor(tip, before))
    if behind and not lost:
        return
    free = free_refs(own, f"{top}/lost/")
    quarantine = f"{top}/in/{tree.branch}"
    fetch(own, folder_of(tree), [f"+{tip}:{quarantine}", *(f"{commit}:{next(free)}" for commit in lost)])
    if not behind:
        own.output("update-ref", ref, own.commit_of(quarantine), before)
        if before and not own.is_ancestor(before, tip):
            own.output("update-ref", next(free), before)
        own.output("read-tree", "--reset", tip)
    own.output("update-ref", "-d", quarantine)


def free_refs(own: Repository, top: str) -> Iterator[str]:
    """Names of refs below *top* that are not taken: numbers."""
    taken = own.lines("for-each-ref", "--format=%(refname)", top)
    return (name for n in count(1) if (name := f"{top}{n}") not in taken)


def fetch(own: Repository, place: Path, wanted: Sequence[str]) -> None:
    """Fetch what is *wanted*, refspecs of objects by id, from the private repository in *place*; git checks each.

    Raises:
        GitFailed: If git cannot, or it takes longer than `TIMEOUT` or is larger than `MOST`.
    """
    _refuse_large(own, place, [one.removeprefix("+").partition(":")[0] for one in wanted])
    upload = shlex.join(_command(own, place, ("git", *_SERVING, "upload-pack", "--strict", "--timeout=60")))
    at_most = shlex.join((sys.executable, "-ISc", _AT_MOST, str(MOST)))
    upload = shlex.join(("sh", "-c", f'{upload} "$@" | {at_most}', "sh"))  # the path follows
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
    fetched = ("--stdin", f"--upload-pack={upload}", str(place))
    done = own.call(*words, *fetched, stdin="\n".join([*wanted, ""]), env=_CHECKING, within=TIMEOUT)
    if done.status:
        raise GitFailed(words, done.status, done.err)


def _refuse_large(own: Repository, place: Path, objects: Sequence[str]) -> None:
    """Refuse *objects* of the private repository in *place* that are larger than `MOST`: a small pack may hold much."""
    known = own.lines("for-each-ref", "--format=^%(objectname)")
    counted = confined(own, place, ("sh", "-c", _SIZE), stdin="\n".join([*objects, *known, ""]))
    size = sum(int(line) for line in counted.out.split() if line.isdigit())
    if counted.status or size > MOST:
        reason = f"the new commits in {place} have {size >> 20} MB, and at most {MOST >> 20} MB are fetched"
        raise GitFailed(("fetch",), 1, counted.err or f"{reason}: take large files out of them")


def carry_over(private: Path, common: Path) -> None:
    """Copy the files of git-lfs that only *private* has; one whose content is not what its name says is left.

    Raises:
        GitFailed: If one is larger than `MOST`.
        OSError: If one cannot be written.
    """
    for _, _, names, folder in os.fwalk(private / "lfs") if (private / "lfs").exists() else ():  # no link is followed
        for name in names:
            target = common / "lfs" / "objects" / name[:2] / name[2:4] / name
            if not _LFS.fullmatch(name) or target.exists():
                continue
            try:
                source = os.fdopen(files.open_fd(name, dir_fd=folder), "rb")
            except OSError as error:
                if shortage(error):
                    raise
                continue
            with source:
                if (size := os.fstat(source.fileno()).st_size) > MOST:
                    reason = f"the file {name} of git-lfs in {private} has {size >> 20} MB: copy it to {target}"
                    raise GitFailed(("lfs",), 1, f"{reason}, since at most {MOST >> 20} MB are taken over")
                _copy_checked(source, target)


def _copy_checked(source: BinaryIO, target: Path) -> None:
    """Copy *source* to *target*, whose name is the SHA-256 of its content, or leave it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.coterie")
    try:
        with part.open("w+b") as copy:
            shutil.copyfileobj(source, copy)
            copy.seek(0)
            is_whole = hashlib.file_digest(copy, "sha256").hexdigest() == target.name
        if is_whole:
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


_LFS = re.compile("[0-9a-f]{64}")
_MARK = re.compile(rb"^<{7} ", re.MULTILINE)
_SERVING = ("-c", "safe.directory=*", "-c", "uploadpack.allowAnySHA1InWant=true")
_CHECKING = {"GIT_CONFIG_PARAMETERS": "'fetch.fsckObjects=true'"}


def remove(tree: WorkTree) -> None:
    """Remove the private repository of *tree*, after everything in it was fetched back.

    Raises:
        GitFailed: If it cannot be fetched.
    """
    private = folder_of(tree)
    if os.path.lexists(private):
        own = repository_of(tree)
        if own is not None:
            look(tree)
            own.call("update-ref", "-d", f"{refs_of(tree.run)}/base/{tree.branch}")
        files.discard(private)
    for name in (LINK, REFS):
        private.with_name(name).unlink(missing_ok=True)


def link(tree: WorkTree, *, private: bool) -> None:
    """Let `.git` in *tree* name the private repository, for an agent that works without mounts, or the owner's."""
    home, place = folder_of(tree).parent, Path(tree.path) / ".git"
    wanted = f"gitdir: {folder_of(tree) if private else tree.git}\n".encode()
    with suppress(OSError):
        if not place.is_symlink() and files.read(place, _LARGEST) == wanted:
            return
    if not place.parent.is_dir():
        return
    if place.is_dir() and not place.is_symlink():  # an agent's: nothing in it is lost
        free = (home / f"replaced-{n}" for n in count(1))
        place.rename(next(path for path in free if not os.path.lexists(path)))
    files.write(home / ".link", wanted)
    (home / ".link").replace(place)


def objects_of(common: Path, depth: int = 5) -> list[Path]:
    """The folders of objects of the repository *common*, those that it borrows from included."""
    return list(_objects(common / "objects", depth))


def _objects(place: Path, depth: int) -> Iterator[Path]:
    yield place.resolve()
    with suppress(OSError, ValueError):
        for line in files.read(place / "info" / "alternates", _LARGEST).split(b"\n"):
            if depth and line and not line.startswith(b"#"):
                quoted = line.startswith(b'"') and line[1:-1].decode("unicode_escape").encode("latin-1")
                yield from _objects(place / os.fsdecode(quoted or line), depth - 1)


def confined(
    own: Repository, place: Path, words: Sequence[str], stdin: str = "", *, writes: bool = False
) -> CompletedCall:
    """Run *words* where they see nothing but the private repository in *place* and the user's objects."""
    argv = _command(own, place, words, writes=writes)
    return git.perform(place.parent, tuple(words), argv, dict(os.environ), stdin, TIMEOUT)


def _command(own: Repository, place: Path, words: Sequence[str], *, writes: bool = False) -> list[str]:
    from coterie.agents.backends.sandbox.choice import working
    from coterie.agents.backends.sandbox.policy import Access, SandboxPolicy

    env = _CLEAN | {"PATH": os.environ.get("PATH", os.defpath), "GIT_DIR": str(place)}
    variables = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
    if (sandbox := working()) is None:
        return [*variables, "sh", "-c", f'cd {shlex.quote(str(place))} && exec "$@"', "sh", *words]
    hidden = (Path("/", name) for name in os.listdir("/") if name not in _SYSTEM)
    access = dict.fromkeys((path for path in hidden if path.is_dir() and not path.is_symlink()), Access.HIDE)
    program = Path(shutil.which("git") or "git").resolve()
    needed = [*objects_of(own.common), *([program.parents[1]] if program.parts[1:2] != ("usr",) else [])]
    access |= dict.fromkeys((path for path in needed if path.is_dir()), Access.READ)
    access |= {Path("/"): Access.READ, place.resolve(): Access.WRITE if writes else Access.READ}
    borrowed = place.with_name(OBJECTS).resolve()
    shown = {borrowed: own.common.resolve() / "objects"} if borrowed.is_dir() else {}
    access |= dict.fromkeys(shown, Access.READ)
    policy = SandboxPolicy(access, Path("/tmp"), {}, {}, {}, network=False, shown=shown)
    argv = [shutil.which(words[0]) or words[0], *words[1:]]  # found before what it may read is restricted
    return [*variables, *sandbox.command(policy, argv, place.resolve())]
