"""The command with which an attempt calls its run: `autoloops`, `autoloop` or `coterie`.

Turn, attempt and epoch are written into the script when the attempt begins, so that an agent cannot call for another
by changing its environment. The script stays after the attempt: calls through it are then refused as stale.

The folder of an attempt may have any name. Prompts name a link to it, whose path is one word to every shell.
"""

import errno
import hashlib
import os
import sys
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from coterie.agents.backends import agentside
from coterie.base import files
from coterie.base.links import NO_LINKS, has_symbolic

NAME = "autoloops"
ALIASES = ("autoloop", "coterie")
_HOME = str(Path(agentside.__file__).parents[4])
"""The folder of the package."""
_LONGEST_INTERPRETER = 120
"""The longest path after `#!` that every kernel accepts, in bytes."""

_SCRIPT = '''\
{start}
"""The command of one attempt, written when it began."""
import sys
sys.path.append({home!r})
from coterie.agents.backends.agentside.client import wrapper
sys.exit(wrapper({known!r}, {python!r}))
'''


def write(folder: Path, known: dict[str, str]) -> Path:
    """Write the script for the attempt in *folder*, which *known* identifies, and return its path.

    Its further names are hard links: a symbolic one takes as much as another file.

    Raises:
        OSError: If it cannot be written.
    """
    path = folder / NAME
    script = _SCRIPT.format(start=_start(sys.executable), home=_HOME, known=known, python=sys.executable)
    files.write(path, script.encode(), mode=files.PRIVATE_FOLDER)
    for alias in (f"{folder}/{name}" for name in ALIASES):
        try:
            os.link(path, alias)
        except OSError as error:
            if error.errno not in (errno.EEXIST, *NO_LINKS):
                raise
            files.write(alias, script.encode(), mode=files.PRIVATE_FOLDER)  # also in place of an earlier script
    return path


def link_of(folder: Path) -> Path:
    """The path of the link to the attempt's *folder*; the folder itself if there is no place for one."""
    home, folder = files.runtime_folder(), folder.absolute()
    return _link_in(home, folder) if home is not None and has_symbolic(home) else folder


@lru_cache
def _link_in(home: Path, folder: Path) -> Path:
    return home / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def link(folder: Path, target: Path, top: Path | None = None) -> Path:
    """Let the link to the attempt's *folder* lead to *target*, and return its path.

    If *top*, a folder above *target*, has a link, it leads through that. It is short then: a long link of ext4 is kept
    in a separate block, and removing that waits for the disk.

    Raises:
        OSError: If it cannot be made.
    """
    path = link_of(folder)
    if path != folder.absolute():
        goal, begin = str(target), f"{top.absolute()}/" if top is not None else ""
        if top is not None and goal.startswith(begin) and os.path.islink(above := link_of(top)):
            goal = f"{above.name}/{goal.removeprefix(begin)}"
        try:
            os.symlink(goal, path)
        except FileExistsError:
            path.unlink()
            os.symlink(goal, path)
    return path


def unlink(link: Path) -> None:
    """Remove the *link* to an attempt's folder, if there is one."""
    if os.path.islink(link):
        with suppress(OSError):
            os.unlink(link)


@cache
def _start(python: str) -> str:
    """The first lines, which start *python* isolated from the agent's environment and without site packages."""
    if len(os.fsencode(python)) <= _LONGEST_INTERPRETER and not any(c.isspace() for c in python):
        return f"#!{python} -IS"
    quoted = python.replace("'", "'\"'\"'").replace("\\", "'\"$(printf '\\134')\"'")
    return f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''"
