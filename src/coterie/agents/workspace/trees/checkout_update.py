"""Take over what agents left in the private repository of a checkout: fetch it, and let the user's checkout follow.

What comes: the branch that is checked out, the index, new branches and tags, and every other commit that only the
private repository has, as `refs/coterie/RUN/lost/N`. No other ref of the user's changes. Each step can be repeated.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.workspace.trees import private
from coterie.agents.workspace.trees.checkout_state import HEADS, OPERATIONS, CheckoutState, move
from coterie.agents.workspace.trees.git import Repository, readable
from coterie.agents.workspace.trees.obstacles import touching
from coterie.agents.workspace.trees.refs import refs_of
from coterie.agents.workspace.trees.worktree import free_branch
from coterie.errors import GitFailed

_LOOK = f"""
[ -z "$1" ] || {{ rm -f ./*.lock; find refs -name '*.lock' -exec rm -f {{}} +; }}
git symbolic-ref -q HEAD || echo
git rev-parse -q --verify 'HEAD^{{commit}}' || echo
rm -f index.look*
cp index index.look 2>/dev/null
GIT_INDEX_FILE="$PWD/index.look" git write-tree --missing-ok 2>/dev/null || echo
rm -f index.look*
echo $(ls -d {" ".join(OPERATIONS)} 2>/dev/null)
git for-each-ref --format='%(objectname) %(refname) %(*objectname)' refs/heads refs/tags
echo
exec git rev-list --all --reflog --parents --ignore-missing --stdin
"""
"""Removes the locks of killed calls of git if no attempt works, and shows what agents left."""
_TAGS = "refs/tags/"
_NO_NAME = re.compile("[A-Z_]+|[0-9a-f]{40,}|-.*", re.DOTALL)
"""Names that git reads as something other than a branch or a tag."""
_NEW_LINK = re.compile(r":(?!160000)\d+ 160000 ")
_SHOWN = 5


class Taken(Struct, frozen=True, kw_only=True):
    """The result of an update.

    Attributes:
        state: The state in which the user's checkout and the private repository agree.
        refs: The user's refs that moved or are new.
        is_refused: Whether the user's checkout must not have what the private repository has.
        notes: Lines about what did not come, or came otherwise than it was left.
    """

    state: CheckoutState
    refs: dict[str, str]
    is_refused: bool
    notes: tuple[str, ...]


class _Left(Struct, frozen=True, kw_only=True):
    """What agents left in the private repository.

    Attributes:
        under_way: What they left unfinished, such as `a merge`.
        refs: Its branches and tags: the object, and the commit that it leads to.
        ends: The commits that only it has, without their ancestors.
    """

    state: CheckoutState
    under_way: str
    refs: Mapping[str, tuple[str, str]]
    ends: Sequence[str]


class CheckoutUpdate:
    """The update of the checkout *own* from its private repository *git*.

    Args:
        branch: The name of the branch for commits that the user's branch cannot have.
        began: The state in which both agreed.
        copied: The user's refs then.
        guards: The files and folders that agents must not write.
    """

    def __init__(
        self,
        own: Repository,
        git: Path,
        run: str,
        branch: str,
        began: CheckoutState,
        copied: dict[str, str],
        guards: Iterable[str] = (),
    ) -> None:
        self._own, self._git, self._branch, self._began, self.copied = own, git, branch, began, copied
        self._is_guarded = touching(name for path in guards for name in _names(own.top, Path(path)))
        self._top, self._message = refs_of(run), f"coterie: run {run}"
        self._scratch = git.with_name("index.look")

    def perform(self, *, alone: bool) -> Taken:
        """Take over what is there.

        Args:
            alone: Whether no attempt works there, so that locks were left by killed processes.

        Raises:
            GitFailed: If git cannot.
        """
        listed = self._own.lines("for-each-ref", "--format=%(objectname) %(refname)")
        theirs = {name: object for object, _, name in (line.partition(" ") for line in listed)}
        known = [object for name, object in theirs.items() if not name.startswith(f"{self._top}/in/")]
        if not {*self.copied.values()} <= {*theirs.values()}:  # the user has moved or deleted some
            private.drop_pruned(self._own, self._git)
        left, began = self._look(known, alone=alone), self._began
        private.carry_over(self._git, self._own.common)
        target, notes = left.state, list[str]()
        if left.under_way:
            notes.append(f"it left {left.under_way} unfinished in its repository, which is not taken over")
            target = began
        elif began.head and not target.head:
            notes.append("it left a branch without a commit, which is not taken over")
            target = began
        elif target.branch not in ("", began.branch) and not target.branch.startswith(HEADS):
            notes.append(f"it checked out {readable(target.branch)}, which is no branch, and is not taken over")
            target = began
        new = {name: found for name, found in left.refs.items() if name not in theirs and name not in self.copied}
        refused = {name for name in new if not _is_free(name, theirs)}
        made = {name: new[name] for name in new if name not in refused and name != target.branch}
        kept = {target.head, *(commit for _, commit in made.values())}
        lost = [commit for commit in left.ends if commit not in kept]
        self._fetch(target, made, lost)
        if target != began and not target.index:  # it has conflicts
            is_moved = target.head != began.head
            target = replace(target, index=self._own.tree_of(target.head) if is_moved else began.index)
        refs, must_not = dict[str, str](), ""
        if target != began:
            is_taken = f"in yours, {_short(target.branch)} means something else"
            must_not = is_taken if target.branch in refused else self._refused(target, alone=alone)
            if reason := must_not or self._move(target):
                notes.append(self._diverted(target, reason))
                target = began
            elif target.branch:
                refs[target.branch] = target.head
        for name, (object, commit) in made.items():
            if not self._own.call("update-ref", "-m", self._message, name, object, "").status:
                refs[name] = object
            elif commit in left.ends:
                self._keep(commit)
                refused.add(name)
        notes += self._untaken(left, theirs, refused, {began.branch, left.state.branch})
        if lost:
            what = "a commit is kept" if len(lost) == 1 else f"{len(lost)} commits are kept"
            shown = f"git -C {self._own.top} log --no-walk --glob={self._top}/lost/*"
            notes.append(f"{what} that it stashed or left behind, in no branch: {shown}")
        self._forget_quarantine()
        return Taken(state=target, refs=refs, is_refused=must_not != "", notes=tuple(notes))

    def _look(self, known: Sequence[str], *, alone: bool) -> _Left:
        words = ("sh", "-c", _LOOK, "sh", "alone" if alone else "")
        looked = private.confined(self._own, self._git, words, "".join(f"^{one}\n" for one in known), writes=True)
        lines = looked.out.split("\n")
        if looked.status or len(lines) < 6 or "" not in lines[4:]:
            raise GitFailed(("rev-list",), looked.status, f"{self._git} cannot be read: {looked.err}")
        branch, head, index, steps, *rest = lines
        gap, refs = rest.index(""), dict[str, tuple[str, str]]()
        for object, name, *commit in (line.split(" ") for line in rest[:gap]):
            refs[name] = (object, next(filter(None, commit), object))
        return _Left(
            state=CheckoutState(branch=branch, head=head, index=index),
            under_way=next((OPERATIONS[name] for name in steps.split() if name in OPERATIONS), ""),
            refs=refs,
            ends=private.ends_of(rest[gap + 1 :]),
        )

    def _fetch(self, target: CheckoutState, made: Mapping[str, tuple[str, str]], lost: Sequence[str]) -> None:
        free, began = private.free_refs(self._own, f"{self._top}/lost/"), self._began
        objects = [target.head] if target.head != began.head else []
        objects += [target.index] if target.index not in ("", began.index) else []
        objects += [object for object, _ in made.values()]
        wanted = [f"+{object}:{self._top}/in/{n}" for n, object in enumerate(objects)]
        if wanted := [*wanted, *(f"{commit}:{next(free)}" for commit in lost)]:
            private.fetch(self._own, self._git, wanted)

    def _forget_quarantine(self) -> None:
        names = self._own.output("for-each-ref", "--format=delete %(refname)", f"{self._top}/in/")
        if names:
            self._own.output("update-ref", "--stdin", stdin=f"{names}\n")

    def _refused(self, target: CheckoutState, *, alone: bool) -> str:
        """Why *target* must not be checked out; empty if it may.

        Git would enter repositories that agents made, or it has other files in the place of those that they must not
        write than the user has there.

        Args:
            alone: Whether no attempt works there, which could still make a repository.
        """
        made, other, began = set[str](), set[str](), self._began
        for after in {target.index, target.head} - {""}:
            changes = self._changes(began.index or began.head, after)
            made |= {name for name, raw in changes.items() if _NEW_LINK.match(raw)}
            guarded = {name: raw for name, raw in changes.items() if self._is_guarded(name)}
            if guarded:  # what the user staged, or not, may be committed
                changes = self._changes(began.head, after)
                other |= self._unlike_files({name: raw for name, raw in guarded.items() if name in changes})
        if other:
            return f"it changes {_listed(other)}, which its agents must not change"
        names = [name for name in made if not alone or os.path.lexists(self._own.top / name / ".git")]
        return f"git would obey the settings of {_listed(names)}, repositories that it made" if names else ""

    def _changes(self, before: str, after: str) -> dict[str, str]:
        """What `git diff-tree` says about each file that differs between *before*, if there is one, and *after*."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--raw")
        fields = self._own.output(*words, before or self._own.output("mktree"), after).split("\0")
        return dict(zip(fields[1::2], fields[::2], strict=False))

    def _unlike_files(self, changes: Mapping[str, str]) -> set[str]:
        """The names of *changes* after which git has something else than the user's files."""
        own, env = self._own, {"GIT_INDEX_FILE": str(self._scratch)}
        entries = {name: raw.split(" ") for name, raw in changes.items()}
        kept = {name: entry for name, entry in entries.items() if int(entry[1])}
        gone = {name for name in entries.keys() - kept.keys() if os.path.lexists(own.top / name)}
        lines = [f"{mode} {object}\t{name}\0" for name, (_, mode, _, object, _) in kept.items()]
        self._scratch.unlink(missing_ok=True)
        try:
            own.output("update-index", "-z", "--index-info", stdin="".join(lines), env=env)
            own.call("update-index", "-q", "--refresh", env=env)
            other = own.output("diff-files", "-z", "--name-only", env=env).split("\0")
        finally:
            self._scratch.unlink(missing_ok=True)
        return gone | {*other} - {""}

    def _move(self, target: CheckoutState) -> str:
        """Let the user's checkout follow; returns why it does not. Commits that the branch loses are kept."""
        began = self._began
        old = began.head if target.branch == began.branch else self.copied.get(target.branch, "")
        if old and target.branch and not self._own.is_ancestor(old, target.head):
            others = self._own.lines("for-each-ref", "--format=%(refname)", f"--contains={old}")
            if not {*others} - {target.branch, f"{self._top}/base/HEAD"}:
                self._keep(old)
        return move(self._own, began, target, self.copied, self._message, self._scratch)

    def _diverted(self, target: CheckoutState, reason: str) -> str:
        """Let a branch of the run's have the commits of *target*; a line about it."""
        if target.head == self._began.head:
            return f"what it staged, or checked out, is not taken over: {reason}"
        patterns = (f"{HEADS}{self._branch}", f"{HEADS}{self._branch}-*")
        found = self._own.lines("for-each-ref", f"--points-at={target.head}", "--format=%(refname)", *patterns)
        try:
            name = found[0].removeprefix(HEADS) if found else free_branch(self._own, self._branch)
            self._own.output("update-ref", "-m", self._message, f"{HEADS}{name}", target.head)
        except GitFailed as error:
            return f"its commits are kept as {self._keep(target.head)}: {reason}; {error}"
        return f"its commits are on the branch {name}, since {reason}: git merge {name}"

    def _keep(self, commit: str) -> str:
        """Let a ref of the run's have *commit*; returns which."""
        top = f"{self._top}/lost/"
        found = self._own.lines("for-each-ref", f"--points-at={commit}", "--format=%(refname)", top)
        name = found[0] if found else next(private.free_refs(self._own, top))
        self._own.output("update-ref", name, commit)
        return name

    def _untaken(self, left: _Left, theirs: Mapping[str, str], refused: set[str], without: set[str]) -> Iterator[str]:
        """Lines about branches and tags that are in the private repository only, or are different there."""
        moved = [
            name
            for name in self.copied.keys() & theirs.keys() - without
            if name.startswith((HEADS, _TAGS)) and left.refs.get(name, ("",))[0] != self.copied[name]
        ]
        if moved:
            yield f"it moved or deleted {_listed(moved)} in its repository; yours are as they were"
        if refused - without:
            yield f"it made {_listed(refused - without)} in its repository; in yours the name means something else"


def _names(top: Path, path: Path) -> Iterator[str]:
    """The names that git has for *path* and for what it leads to, as far as they are below *top*."""
    real = top.resolve()
    for one in {path.parent.resolve() / path.name, path.resolve()}:
        if one.is_relative_to(real):
            yield one.relative_to(real).as_posix()


def _short(name: str) -> str:
    return readable(name.removeprefix(HEADS).removeprefix(_TAGS))


def _listed(names: Sequence[str] | set[str]) -> str:
    shown = sorted(map(_short, names))
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _is_free(name: str, theirs: Mapping[str, str]) -> bool:
    """Whether a new branch or tag *name* would change the meaning of no name in the user's repository."""
    short = name.removeprefix(HEADS).removeprefix(_TAGS)
    places = ("", "refs/", HEADS, _TAGS, "refs/remotes/")
    taken = {*(f"{place}{short}" for place in places), f"refs/remotes/{short}/HEAD"}
    return not _NO_NAME.fullmatch(short) and taken.isdisjoint(theirs)
