"""Real git repositories for tests, and what they hold."""

import atexit
import os
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """What git answers to *words* in *folder*; the user it knows is nobody's."""
    settings = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.rstrip("\n")


def repository(folder: Path, **files: str) -> Path:
    """A repository in *folder* on the branch `main`, with one commit that holds *files* (`a__txt` is `a.txt`)."""
    held = {"a__txt": "one\n"} | files
    shutil.copytree(_template(tuple(held.items())) / ".git", folder / ".git")
    for name, text in held.items():
        put(folder, name.replace("__", "."), text)
    git(folder, "update-index", "--refresh")  # the files' times are new
    return folder


@cache
def _template(files: tuple[tuple[str, str], ...]) -> Path:
    """A repository with one commit of *files*, made once in each process: every other is a copy of it."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, "first", **dict(files))


def commit(folder: Path, message: str, **files: str) -> Path:
    """Commit *files* in *folder*."""
    for name, text in files.items():
        put(folder, name.replace("__", "."), text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return folder


def put(folder: Path, name: str, text: str) -> None:
    """Write the file *name* below *folder*."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def holds(folder: Path) -> dict[str, tuple[str, str]]:
    """Every file below *folder*, git's own left out, as (kind, content): `file`, `program` or `link`."""
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git" and not (Path(base) / name).is_symlink()]
        links = [name for name in os.listdir(base) if (Path(base) / name).is_symlink()]
        for name in {*names, *links} - {".git"}:
            path = Path(base) / name
            if path.is_symlink():
                found[str(path.relative_to(folder))] = ("link", os.readlink(path))
            else:
                kind = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
                found[str(path.relative_to(folder))] = (kind, path.read_bytes().decode("latin-1"))
    return found


def untouched(folder: Path) -> tuple[str, ...]:
    """What nothing may change in a checkout of the user's: its branches, HEAD, index, stash and files."""
    refs = git(folder, "for-each-ref", "refs/heads", "refs/stash", "refs/tags")
    head = (folder / ".git" / "HEAD").read_text()
    return (refs, head, git(folder, "ls-files", "--stage"), git(folder, "status", "--porcelain"), str(holds(folder)))
