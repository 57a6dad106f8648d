"""Append-only files of entries, one JSON object a line, for memory and tasks.

An entry replaces an earlier one with the same id; a tombstone removes its target until it is added again. Lines that
are not entries are ignored. A writer holds the file's lock and writes each line once.
"""

import errno
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from coterie.base import files
from coterie.base.shortages import shortage

try:
    import fcntl
except ImportError:  # not Unix: runs cannot be owned there, and entries are added without a lock
    fcntl = None  # type: ignore[assignment]

from coterie.base.waits import waiting
from coterie.team.formats.bounds import load_json

Entry = dict[str, Any]
_LARGEST = 16 << 20
"""Bytes read from the end of a file: the newest entries."""
_SHORTEST = len('{"id":""}')
TOMBSTONES = ("tombstone", "task-tombstone")


def read(path: Path) -> list[Entry]:
    """All entries of the file *path*, replaced and removed ones too; none if it cannot be read."""
    try:
        lines = files.read_end(path, _LARGEST, follow=True).splitlines()
    except OSError as error:
        if shortage(error):
            raise
        return []
    found = []
    for line in lines:
        if len(line) < _SHORTEST:
            continue
        try:
            entry = load_json(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            found.append(entry)
    return found


def in_force(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The *entries* that were neither replaced nor removed, by id, in the order of their last writing."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.get("type") in TOMBSTONES:
            found.pop(str(entry.get("target_id", "")), None)
            continue
        found.pop(entry["id"], None)
        found[entry["id"]] = entry
    return found


def add(path: Path, entries: Sequence[Entry]) -> None:
    """Append *entries* to the file *path*, without lines that it already has: so a call can be repeated after a crash.

    Raises:
        OSError: If they cannot be written.
    """
    if not entries:
        return
    files.make_folder(path.parent)
    with _opened(path) as file:
        if fcntl is not None:
            with waiting(f"another process to release the lock on {path}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LARGEST))
        data = file.read(_LARGEST)
        there = set(data.splitlines())
        lines = [line for entry in entries if (line := _line(entry)) not in there]
        start = b"\n" if data and not data.endswith(b"\n") else b""
        if lines:
            file.write(start + b"".join(line + b"\n" for line in lines))


def _opened(path: Path) -> BinaryIO:
    try:
        file = files.open_private(path, "a+b", follow=True)
        if os.fstat(file.fileno()).st_nlink == 1:
            return file
        file.close()
        kept = files.read_end(path, _LARGEST, follow=True)
        files.write(path.resolve(), kept)  # a copy of its own: the other name may be one of the user's files
        return files.open_private(path, "a+b", follow=True)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR):
            raise
        path.rename(path.with_name(f"{path.name}.unreadable"))  # a pipe, a device, a folder
        return files.open_private(path, "a+b", follow=True)


def _line(entry: Entry) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
