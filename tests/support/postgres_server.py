"""A PostgreSQL server of our own for tests: in a new folder, reached through a socket there, so it is nobody else's.

PostgreSQL refuses to be run by root; then the user `postgres` runs it, where there is one.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.agents.backends.processes import alive, started

_QUICK = ("fsync=off", "max_connections=100", "shared_buffers=16MB")
"""It need not outlive a power cut; what it has committed does outlive its own kill."""


def missing() -> str:
    """Why no server can be started here; empty: one can."""
    for program in ("initdb", "pg_ctl", "postgres"):
        if shutil.which(program) is None:
            return f"{program} is not on PATH"
    if os.geteuid() == 0 and _owner() is None:
        return "PostgreSQL cannot be run by root, and there is no user postgres"
    return ""


@contextmanager
def server() -> Iterator[str]:
    """A server, as a URL without a database; it ends, and its folder goes, with the block."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path is at most 100 bytes long
    if (owner := _owner()) is not None and os.geteuid() == 0:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    try:
        _run(folder, "initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        start(folder)
        try:
            yield f"postgresql+asyncpg://tester@/{{}}?host={folder}"
        finally:
            _run(folder, "pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path) -> None:
    """Start the server in *folder*; it may have been killed."""
    settings = [f"-c {word}" for word in (*_QUICK, "listen_addresses=", f"unix_socket_directories={folder}")]
    log = str(folder / "log")
    _run(folder, "pg_ctl", "-D", str(folder / "data"), "-w", "-t", "300", "-l", log, "-o", " ".join(settings), "start")


def kill(folder: Path) -> None:
    """SIGKILL the server in *folder*, and wait until its other processes have noticed."""
    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    began = {int(child): started(int(child)) for child in children}
    os.kill(pid, signal.SIGKILL)
    while any(alive(*child) for child in began.items()):  # nobody may wait for those that have ended
        time.sleep(0.02)


def _run(folder: Path, *words: str) -> None:
    owner = _owner() if os.geteuid() == 0 else None
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
        user=owner.pw_uid if owner else None,
        group=owner.pw_gid if owner else None,
        extra_groups=[] if owner else None,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _owner() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None
