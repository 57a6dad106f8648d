"""Remove what a node keeps of runs that ended long ago: their files in git, work trees left by a kill, attempts."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from coterie.base import files

LOOK_EVERY = 3600.0
"""The longest time in seconds between two looks."""
_REMOVED = ".removed"
"""The end of the name of a folder that is being removed; a node may be killed meanwhile."""


async def keep_clean(client: Client, home: Path, keep: float) -> None:
    """Remove what lies below *home* of runs that ended *keep* seconds ago, until this is cancelled."""
    while True:
        with suppress(RPCError, OSError):  # the server is away, or a folder is in use
            await remove_ended(client, home, keep)
        await asyncio.sleep(min(keep, LOOK_EVERY))


async def remove_ended(client: Client, home: Path, keep: float) -> list[str]:
    """Remove what lies below *home* of runs that ended *keep* seconds ago; return these runs.

    It can all be had again: the export has the files that turns left, and what they printed.
    """
    found = await asyncio.to_thread(lambda: list(_folders(home)))
    removed = []
    for run in sorted({run for run, _ in found}):
        own = [path for name, path in found if name == run]
        if time.time() - await _ended(client, run, own) >= keep:
            await asyncio.to_thread(_remove, own)
            removed.append(run)
    return removed


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    """The folders below *home* with files of runs, each with its run."""
    for part, below in ("files", ""), ("read", ""), ("runs", "turns"), ("runs", f"turns{_REMOVED}"):
        with suppress(FileNotFoundError):
            for entry in os.scandir(home / part):
                if (path := Path(entry.path) / below).is_dir():
                    yield unquote(entry.name), path


async def _ended(client: Client, run: str, folders: list[Path]) -> float:
    """When *run* ended, in Unix seconds; infinity: it has not. The server forgets runs: then the newest folder says."""
    try:
        found = await client.get_workflow_handle(run).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return max(path.stat().st_mtime for path in folders)
    if found.status is WorkflowExecutionStatus.RUNNING or found.close_time is None:
        return float("inf")
    return found.close_time.timestamp()


def _remove(folders: list[Path]) -> None:
    for path in folders:
        away = path.with_name(f"{path.name}{_REMOVED}")  # at once: the run may be resumed
        files.discard(away)
        with suppress(OSError):
            path.rename(away)
        files.discard(away)
