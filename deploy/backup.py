#!/usr/bin/env python3
"""Back up the runs of a state directory: backup.py STATE_DIR ARCHIVE.tar.gz

Journals only grow, so a copy of a run under way is a valid journal up to some record; a line that was cut off is put
aside when the run is resumed. The archive takes its name once it is whole and durable: one that is cut off leaves the
archive of before. Secrets of runs are in it: only its owner can read it, keep it so.
"""

import contextlib
import fcntl
import glob
import os
import stat
import sys
import tarfile
import tempfile
from pathlib import Path

LEFT_OUT = {"lock", "control.json"}  # they belong to the process that drives the run


def add(archive: tarfile.TarFile, top: Path, folder: Path) -> None:
    """Add *folder* and what is below it: folders and regular files, which end where they end now; no links."""
    archive.addfile(archive.gettarinfo(folder, str(folder.relative_to(top))))
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError):  # an owner has removed it meanwhile
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                add(archive, top, path)
            elif stat.S_ISREG(mode) and path.name not in LEFT_OUT:
                with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
                    archive.addfile(archive.gettarinfo(arcname=str(path.relative_to(top)), fileobj=file), file)


def remove_cut_off(target: Path) -> None:
    """Remove the parts of archives at *target* whose backup was killed: no process holds their lock."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.*"):
        with contextlib.suppress(OSError), open(part, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def back_up(state_dir: Path, target: Path) -> None:
    """Write the archive *target* of the runs in *state_dir*."""
    remove_cut_off(target)
    number, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # private from the beginning
    try:
        with open(number, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with tarfile.open(fileobj=file, mode="w:gz", dereference=True) as archive:  # each name has its content
                add(archive, state_dir, state_dir / "runs")
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    os.fsync(folder)  # the name, too
    os.close(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1], "runs").is_dir():
        raise SystemExit("backup.py: name a state directory that has runs: backup.py .coterie runs.tar.gz")
    try:
        back_up(Path(sys.argv[1]), Path(sys.argv[2]))
    except OSError as error:
        raise SystemExit(f"backup.py: {error}; there is no new archive: try again") from None
