"""The command by which an attempt calls its run: `autoloops`, `autoloop` or `coterie`.

Turn, attempt and epoch are written into the script when the attempt begins, so that an agent cannot call for another
by changing its environment. The script stays after the attempt: calls through it are then refused as stale.
"""

import os
import sys
from pathlib import Path

from coterie import files
from coterie.backends import agentside

NAME = "autoloops"
ALIASES = ("autoloop", "coterie")
_LONGEST_INTERPRETER = 120
"""Bytes of a path that every kernel accepts after `#!`."""

_SCRIPT = '''\
{start}
"""The command of one attempt, written when it began."""
import sys
sys.path.append({home!r})
from coterie.backends.agentside.client import wrapper
sys.exit(wrapper({known!r}, {python!r}))
'''


def write(folder: Path, known: dict[str, str]) -> Path:
    """Write the script for the attempt in *folder*, which *known* identifies, and return its path.

    Raises:
        OSError: If it cannot be written.
    """
    path = folder / NAME
    home = str(Path(agentside.__file__).parents[3])
    script = _SCRIPT.format(start=_start(sys.executable), home=home, known=known, python=sys.executable)
    files.write(path, script.encode(), mode=files.PRIVATE_FOLDER)
    for alias in ALIASES:
        link = folder / alias
        if not link.is_symlink():
            link.symlink_to(NAME)
    return path


def _start(python: str) -> str:
    """The first lines, which start *python* isolated from the agent's environment and without site packages."""
    if len(os.fsencode(python)) <= _LONGEST_INTERPRETER and not any(c.isspace() for c in python):
        return f"#!{python} -IS"
    quoted = python.replace("'", "'\"'\"'")
    return f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''"
