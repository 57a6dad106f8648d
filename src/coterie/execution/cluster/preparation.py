"""What prepares the tree of a turn on a node: `worktree.copy` and `worktree.setup`, as on one machine.

The ignored files that `worktree.copy` names travel as one archive, beside the bundles of the run's files: they are no
part of its commits, and so never come back. One that looks like a secret travels only if the user names it.
"""

import gzip
import os
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees.preparation import named_files
from coterie.base import files
from coterie.errors import UsageError
from coterie.team.options.secret_files import DEPENDENCIES, below, is_secret
from coterie.team.planning.plan import TreePlan

LARGEST = 200 << 20
"""Bytes that can travel in one piece: the files of a run, as they are packed, or this archive."""


class TreeNeeds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a new tree of a run gets.

    Attributes:
        ignored: What the user's `info/exclude` lets git ignore.
        copy: The patterns of `worktree.copy`; *archive* is the blob with the files that they name.
        setup: The commands of `worktree.setup`, in the *sandbox* of the run's agents.
    """

    ignored: str = ""
    copy: tuple[str, ...] = ()
    archive: str = ""
    setup: tuple[tuple[str, ...], ...] = ()
    sandbox: str = "off"


NO_NEEDS = TreeNeeds()


def pack_copies(
    root: Path, wanted: TreePlan, tracked: Collection[str], include: Iterable[Path]
) -> tuple[bytes, list[str]]:
    """The files and folders of *root* that *wanted* names and that are not *tracked*, in an archive.

    Args:
        tracked: The names that travel as the run's files.
        include: Files and folders that travel although they look like secrets.

    Returns:
        The archive, empty if there are none, and the names of what looks like a secret and is not in it.

    Raises:
        UsageError: If a pattern leads out of *root*, or the archive is too large.
    """
    known = {*tracked} | {str(above) for name in tracked for above in Path(name).parents}
    allowed, left_out, count = tuple(include), list[str](), 0
    with tempfile.TemporaryFile() as file:
        with (
            gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|") as archive,
        ):
            for source in named_files(root, wanted.copy, root / ".coterie", root / ".autoloop"):
                name = source.relative_to(root)
                if str(name) in known:
                    continue
                secrets = {one for one in _secrets(root, name) if not any(map(one.is_relative_to, allowed))}
                left_out += [str(one.relative_to(root)) for one in sorted(secrets)]

                def kept(info: tarfile.TarInfo, secrets: Collection[Path] = secrets) -> tarfile.TarInfo | None:
                    if file.tell() > LARGEST:
                        raise UsageError(
                            f"worktree.copy: the files from {info.name!r} on make more than {LARGEST >> 20} MB, which "
                            "cannot travel: let worktree.setup make them on the nodes"
                        )
                    if root / info.name in secrets or not (
                        info.isreg() or info.isdir() or info.issym() or info.islnk()
                    ):
                        return None
                    info.uid = info.gid = 0
                    info.uname = info.gname = ""
                    return info

                count += source not in secrets
                archive.add(source, str(name), filter=kept)
        file.seek(0)
        return file.read() if count else b"", left_out


def _secrets(root: Path, name: Path) -> Iterator[Path]:
    """The paths with secrets at and below *name* in *root*."""
    if DEPENDENCIES & {*name.parts}:
        return
    if is_secret(name):
        yield root / name
    elif (root / name).is_dir() and not (root / name).is_symlink():
        yield from below(root / name)


def unpack(data: bytes, folder: Path) -> None:
    """Put what is in the archive *data* into the new *folder*; what a killed node left there is removed."""
    part = folder.with_name(f".{folder.name}.part")
    files.discard(part)
    files.make_folder(part)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:gz") as archive:
            archive.extractall(part, filter="tar")
    os.rename(part, folder)
