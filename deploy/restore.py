#!/usr/bin/env python3
"""Restore runs from an archive of backup.py: restore.py ARCHIVE.tar.gz STATE_DIR

Runs that are there already stay as they are. Each of the others takes its place once it is whole, so a restore that was
cut off is called again. Only folders and regular files below `runs` are taken from an archive.
"""

import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath


def unpack(archive: tarfile.TarFile, to: Path) -> None:
    """Write the folders and files of *archive* into the folder *to*, private."""
    for member in archive:
        path = PurePosixPath(member.name)
        if path.parts[:1] != ("runs",) or ".." in path.parts or not (member.isdir() or member.isreg()):
            raise SystemExit(f"restore.py: {member.name!r} is not in an archive of backup.py; nothing was restored")
        (to / path if member.isdir() else (to / path).parent).mkdir(parents=True, exist_ok=True)
        if (content := archive.extractfile(member)) is not None:
            with content, open(to / path, "xb") as file:
                shutil.copyfileobj(content, file)
                os.fsync(file.fileno())
            (to / path).chmod(member.mode & 0o700)
            os.utime(to / path, (member.mtime, member.mtime))


def restore(source: Path, state_dir: Path) -> None:
    """Move what the archive *source* holds, and *state_dir* does not, into *state_dir*."""
    os.umask(0o077)
    runs = state_dir / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    with tarfile.open(source) as archive, tempfile.TemporaryDirectory(prefix=".restore.", dir=state_dir) as unpacked:
        unpack(archive, Path(unpacked))
        for folder, _, _ in os.walk(unpacked):  # the names of all files, before runs take theirs
            number = os.open(folder, os.O_RDONLY)
            os.fsync(number)
            os.close(number)
        for path in sorted(Path(unpacked, "runs").iterdir()):
            if not (runs / path.name).exists():
                path.rename(runs / path.name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("restore.py: name an archive and a state directory: restore.py runs.tar.gz .coterie")
    try:
        restore(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, tarfile.TarError, EOFError) as error:
        raise SystemExit(f"restore.py: {sys.argv[1]}: {error}; nothing was restored") from None
