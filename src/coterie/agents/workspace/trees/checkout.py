"""The private repository of the agents that work in the user's own checkout, while a sandbox with mounts hides `.git`.

    <run's folder>/checkout/git      the private repository, which is what `.git` is for them; see `private.py`
                            objects  where it finds the user's objects, which are mounted there
                            lfs      and the files of git-lfs
                            link     what `.git` is in a linked work tree or a submodule, where it is a file
                            refs     the refs that the user had when the private repository last followed them
                            meta.json

When an attempt begins, the private repository follows what the user has moved since: refs, HEAD and the index with what
is staged. When it is over, its commits are fetched, and the user's branch, HEAD and index follow the agent's
(`checkout_update.py`). If they cannot, a branch of the run's has the commits. New branches and tags are made, other
refs of the user's never change, and commits that no branch has are kept by `refs/coterie/RUN/lost/N`.

Attempts that work at once share the private repository, as they share the files: it follows the user when the first
begins, and is taken over at the end of each. After a kill, the next attempt takes over first what is there.
"""

import os
import re
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.backends.base import OwnRepository
from coterie.agents.workspace.trees import checkout_state, private
from coterie.agents.workspace.trees.checkout_state import OPERATIONS, CheckoutState
from coterie.agents.workspace.trees.checkout_update import CheckoutUpdate
from coterie.agents.workspace.trees.git import Repository, find, lines_of
from coterie.agents.workspace.trees.obeyed_files import ObeyedFiles, find_obeyed
from coterie.agents.workspace.trees.refs import refs_of
from coterie.agents.workspace.trees.repository_lock import locked
from coterie.base import files
from coterie.base.shortages import shortage
from coterie.errors import CoterieError, GitFailed

FOLDER, _META = "checkout", "meta.json"
_LARGEST = 1 << 30
_FOLLOW = f"""
printf '%s\\n' "$1" > objects/info/alternates
while read -r name new old; do
    case $new/$old in
    -/=) git update-ref -d "$name" ;;
    -/*) git update-ref -d "$name" "$old" ;;
    */=) git update-ref "$name" "$new" ;;
    *) git update-ref "$name" "$new" "${{old#-}}" ;;
    esac
done
[ "$2" = - ] && exit
rm -rf ./*.lock {" ".join(OPERATIONS)} MERGE_MSG MERGE_MODE AUTO_MERGE SQUASH_MSG
find refs -name '*.lock' -exec rm -f {{}} +
if [ -z "$2" ]; then exec git update-ref --no-deref HEAD "$3"; fi
git symbolic-ref HEAD "$2" || exit
if [ -n "$3" ]; then git update-ref "$2" "$3"; else git update-ref -d "$2"; fi
"""
"""Lets refs of the private repository follow those of standard input, and HEAD the branch `$2` at `$3`, unless `-`.

A line has the name, the object or `-` for none, and that which agents must have left there, or `=` for whatever.
"""
_EXCLUDE = 'printf "%s\\n" "$@" >> info/exclude'


class _Meta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the private repository between attempts.

    Attributes:
        top: The user's checkout.
        state: The state of it and of the private repository when they last agreed.
        fingerprint: That of the user's index then.
        is_open: Whether attempts may have worked in it since.
        is_refused: Whether it has what the user's checkout must not have, so that the next attempt begins without.
        made: The empty files and folders that were made in the checkout so that agents cannot.
        guards: The files and folders that agents which worked since must not write.
        notes: What is still to be said about attempts that were cut off.
    """

    top: str
    state: CheckoutState
    fingerprint: str = ""
    is_open: bool = False
    is_refused: bool = False
    made: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Checkout:
    """The user's checkout in which agents of a root run work in a sandbox with mounts. Its calls may be in threads.

    Args:
        home: The folder of its private repository.
        branch: The name of the branch for commits that the user's branch cannot have.

    Attributes:
        repository: What the agents that work have for git; None: the user's repository itself.
        obeyed: The files in the checkout that git obeys, which they must not write.
    """

    def __init__(self, home: Path, run: str, branch: str) -> None:
        self._home, self._run, self._branch = home, run, branch
        self._lock = threading.Lock()
        self._own: Repository | None = None
        self._working, self._why = 0, ""
        self._told: set[str] = set()
        self.repository: OwnRepository | None = None
        self.obeyed: tuple[Path, ...] = ()

    def enter(self, cwd: Path, team: Iterable[Path] = ()) -> None:
        """Let an attempt begin to work in *cwd*: make the private repository, or let it follow the user's.

        Args:
            team: The files that it must not write; git must not either.
        """
        with self._lock:
            if not self._working:
                self.repository, self._own, self._why = None, None, ""
                try:
                    self._enter(cwd)
                except (CoterieError, OSError) as error:
                    if shortage(error):
                        raise
                    self._why = str(error)
            if self._own is not None:
                meta = self._known()
                guards = dict.fromkeys((*meta.guards, *map(str, team), *map(str, self.obeyed)))
                self._write(replace(meta, guards=tuple(guards)))
            self._working += 1

    def leave(self) -> tuple[str, ...]:
        """Take over what an attempt left; returns what is to be said about it.

        Raises:
            GitFailed: If git cannot; then the next attempt gets another private repository.
        """
        with self._lock:
            self._working -= 1
            if self._own is None:
                return (f"it worked with your repository itself: {self._why}",) if self._why else ()
            self._take_over(self._own)
            meta = self._known()
            self._write(replace(meta, notes=(), is_open=self._working > 0))
            return meta.notes

    def end(self) -> None:
        """Take over what attempts left that were cut off, and remove what was made in the checkout."""
        with self._lock:
            self._working = 0
            if not self._meta_file.exists():
                return
            if self._own is not None and self._known().is_open:
                with suppress(CoterieError, OSError):
                    self._close(self._own)
            self._remove_made()

    def _close(self, own: Repository) -> None:
        """Take over what is there while no attempt works."""
        self._take_over(own)
        self._write(replace(self._known(), is_open=False))

    @property
    def _meta_file(self) -> Path:
        return self._home / _META

    @property
    def _git(self) -> Path:
        return self._home / private.NAME

    def _known(self) -> _Meta:
        return msgspec.json.decode(files.read(self._meta_file, _LARGEST), type=_Meta)

    def _write(self, meta: _Meta) -> None:
        part = self._home / f".{_META}"
        files.write(part, msgspec.json.encode(meta))
        part.replace(self._meta_file)

    # -- the beginning of an attempt

    def _enter(self, cwd: Path) -> None:
        found = find(cwd)
        if found is None:
            return
        own = replace(found, bound=True)
        if why := own.why_read_only():
            self._why = why
            return
        with locked(own.common):
            checkout_state.clear(own)
            known = self._known() if self._meta_file.exists() else None
            if known is not None and known.top != str(own.top) and own.top.is_relative_to(known.top):
                self._why = f"{own.top} is a repository in {known.top}, where the run began"
                return
            if known is not None and known.is_open:
                with suppress(GitFailed):  # if it cannot be read, it is made again below
                    self._close(own)
            obeyed = find_obeyed(own)
            self.obeyed = tuple(dict.fromkeys((*self.obeyed, *obeyed.paths)))
            if why := _obstacle(own):
                self._why = why
                return
            self._follow(own)
            self._make_obeyed(own, obeyed)
        self._own, self.repository = own, self._described(own)

    def _follow(self, own: Repository) -> None:
        """Let the private repository follow the user's, or make it."""
        for name in (private.OBJECTS, "lfs"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        refs, mark = private.copied_refs(own), checkout_state.fingerprint(own)
        known = self._known() if self._meta_file.exists() else None
        index = known.state.index if known is not None and known.fingerprint == mark else ""
        state = checkout_state.state_of(own, self._home / "index.look", index)
        if known is None or known.is_open or not self._followed(own, known, state, refs):
            self._make(own, state, refs)
        files.write(self._home / private.REFS, refs.encode("utf-8", "surrogateescape"))
        if state.head and (known is None or known.state.head != state.head):
            own.output("update-ref", f"{refs_of(self._run)}/base/HEAD", state.head)
        made, notes = (known.made, known.notes) if known is not None else ((), ())
        self._write(_Meta(top=str(own.top), state=state, fingerprint=mark, is_open=True, made=made, notes=notes))

    def _followed(self, own: Repository, known: _Meta, state: CheckoutState, refs: str) -> bool:
        """Whether the private repository could follow the user's *state* and *refs*."""
        if self._git.is_symlink() or not self._git.is_dir():
            return False
        before, now = _by_name(self._copied()), _by_name(refs)
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        moved = state != known.state or known.is_refused
        if changed or moved or not self._is_addressed(own):
            lines = [f"{name} {now.get(name, '-')} {before.get(name, '-')}\n" for name in changed]
            if moved and known.state.branch:  # agents may have moved it where the user's did not follow
                lines.append(f"{known.state.branch} {now.get(known.state.branch, '-')} =\n")
            words = (private.borrowed(self._home / private.OBJECTS), state.branch if moved else "-", state.head)
            done = private.confined(own, self._git, ("sh", "-c", _FOLLOW, "sh", *words), "".join(lines), writes=True)
            if done.status:
                return False
            self._address(own)
        with suppress(OSError):
            if moved:
                self._copy_index(own)
            return True
        return False

    def _copy_index(self, own: Repository) -> None:
        """Give the private repository the user's index; what agents put in its place is replaced, not followed."""
        for source in (own.own / "index", *own.own.glob("sharedindex.*")):
            part = self._home / ".index"
            if source.exists():
                shutil.copyfile(source, part)
                part.replace(self._git / source.name)
            else:
                (self._git / source.name).unlink(missing_ok=True)

    def _make(self, own: Repository, state: CheckoutState, refs: str) -> None:
        """Make the private repository; one that is there and could not be read stays beside it."""
        if os.path.lexists(self._git):
            free = (self._git.with_name(f"{private.NAME}.damaged-{n}") for n in count(1))
            self._git.rename(next(path for path in free if not os.path.lexists(path)))
        head = f"ref: {state.branch}" if state.branch else state.head
        part = private.create(own, self._git, head, refs, self._home / private.OBJECTS)
        part.rename(self._git)
        self._address(own)

    def _address(self, own: Repository) -> None:
        """Remember where the private repository and the user's are."""
        files.write(self._home / private.LINK, f"gitdir: {self._git}\n".encode())

    def _is_addressed(self, own: Repository) -> bool:
        with suppress(OSError):
            return files.read(self._home / private.LINK, _LARGEST) == f"gitdir: {self._git}\n".encode()
        return False

    def _copied(self) -> str:
        with suppress(OSError):
            return files.read(self._home / private.REFS, _LARGEST).decode("utf-8", "surrogateescape")
        return ""

    def _described(self, own: Repository) -> OwnRepository:
        """What a sandbox shows: the private repository as `.git`, and of the user's what agents may read."""
        place, modules = own.top / ".git", own.own / "modules"
        shown = [(self._home / private.OBJECTS, own.common / "objects"), (self._home / "lfs", own.common / "lfs")]
        read = private.objects_of(own.common)[1:]
        if place.is_dir():
            shown.append((place / "modules", modules))
        else:
            read.append(modules)
        return OwnRepository(
            tree=own.top,
            git=self._git,
            link=None if place.is_dir() else self._home / private.LINK,
            common=own.common,
            read=tuple(read),
            shown=tuple((at, real) for at, real in shown if real.exists()),
        )

    def _make_obeyed(self, own: Repository, obeyed: ObeyedFiles) -> None:
        """Make the missing files that git obeys, empty, since a sandbox can only protect what exists."""
        absent: dict[Path, bool] = {}
        for paths, is_folder in ((obeyed.files, False), (obeyed.folders, True)):
            for path in paths:
                above = [one for one in reversed(path.parents) if not os.path.lexists(one)]
                absent |= dict.fromkeys(above, True) | ({} if os.path.lexists(path) else {path: is_folder})
        if not absent:
            return
        meta = self._known()
        self._write(replace(meta, made=tuple(dict.fromkeys((*meta.made, *map(str, absent))))))
        for path, is_folder in absent.items():
            path.mkdir() if is_folder else path.touch()
        hidden = [f"/{_literal(os.path.relpath(path, own.top))}" for path in absent]
        private.confined(own, self._git, ("sh", "-c", _EXCLUDE, "sh", *hidden), writes=True)

    def _remove_made(self) -> None:
        """Remove what was made in the checkout and is as empty as it was."""
        meta = self._known()
        for path in map(Path, reversed(meta.made)):
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                elif not path.lstat().st_size:
                    path.unlink()
        self._write(replace(meta, made=()))

    # -- the end of an attempt

    def _take_over(self, own: Repository) -> None:
        """Fetch what agents left, and let the user's checkout follow; what is to be said is kept until it is."""
        if self._git.is_symlink() or not self._git.is_dir():
            raise GitFailed(("fetch",), 1, f"{self._git}, the repository of the agents, is gone")
        with locked(own.common):
            checkout_state.clear(own)
            meta = self._known()
            copied = _by_name(self._copied())
            update = CheckoutUpdate(own, self._git, self._run, self._branch, meta.state, copied, meta.guards)
            taken = update.perform(alone=not self._working)
            if taken.refs:
                lines = "".join(f"{object} {name}\n" for name, object in (update.copied | taken.refs).items())
                files.write(self._home / private.REFS, lines.encode("utf-8", "surrogateescape"))
            mark = meta.fingerprint if taken.state == meta.state else ""
            notes = (*meta.notes, *(note for note in taken.notes if note not in self._told))
            self._told.update(taken.notes)
            refused = taken.is_refused
            self._write(replace(meta, state=taken.state, fingerprint=mark, is_refused=refused, notes=notes))


def _obstacle(own: Repository) -> str:
    """Why agents cannot have a private repository in the checkout *own*; empty if they can."""
    place = own.top / ".git"
    if place.is_symlink() or not place.exists() or (place.is_dir() and place.resolve() != own.own.resolve()):
        return f"{place} is not the folder of git, nor a file that names it"
    alternates = own.common / "objects" / "info" / "alternates"
    lines = files.read(alternates, _LARGEST).split(b"\n") if alternates.is_file() else []
    if place.is_dir() and any(line and not line.startswith((b"/", b"#")) for line in lines):
        return f"{alternates} has a relative path"
    if under_way := checkout_state.operation_in(own):
        return f"{under_way} is under way in {own.top}"
    return ""


def _literal(name: str) -> str:
    """*name* as a pattern that matches nothing else."""
    return re.sub(r"([*?\[\\!# ])", r"\\\1", name)


def _by_name(text: str) -> dict[str, str]:
    """The objects of refs, by name, of lines as in `packed-refs`."""
    lines = (line.partition(" ") for line in lines_of(text) if not line.startswith("^"))
    return {name: object for object, _, name in lines}
