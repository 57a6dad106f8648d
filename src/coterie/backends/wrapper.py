"""The command that an attempt finds as `autoloops`, `autoloop` and `coterie`: it says whose the attempt is.

Turn, attempt and epoch are written into it when the attempt begins, so that nothing an agent does to its environment
makes it speak for another. It stays when the attempt is over: what is said through it then is refused as stale.
"""

import os
import sys
from pathlib import Path

from coterie import agentside, files

NAME = "autoloops"
ALIASES = ("autoloop", "coterie")
_LONGEST_INTERPRETER = 120
"""Bytes of a path that every kernel takes behind `#!`."""

_SCRIPT = '''\
{start}
"""What one attempt calls as `autoloops`, `autoloop` and `coterie`; made for it when it began."""
import sys
sys.path.append({home!r})
from coterie.agentside.speaking import wrapper
sys.exit(wrapper({known!r}, {python!r}))
'''


def write(folder: Path, known: dict[str, str]) -> Path:
    """Make the wrapper of the attempt in *folder*, of which *known* says whose it is, and give its path.

    Raises:
        OSError: If it cannot be written.
    """
    path = folder / NAME
    home = str(Path(agentside.__file__).parents[2])
    script = _SCRIPT.format(start=_start(sys.executable), home=home, known=known, python=sys.executable)
    files.write(path, script.encode(), mode=files.PRIVATE_FOLDER)
    for alias in ALIASES:
        link = folder / alias
        if not link.is_symlink():
            link.symlink_to(NAME)
    return path


def _start(python: str) -> str:
    """How the script finds its interpreter: isolated from the agent's environment, and without looking for packages."""
    if len(os.fsencode(python)) <= _LONGEST_INTERPRETER and not any(c.isspace() for c in python):
        return f"#!{python} -IS"
    quoted = python.replace("'", "'\"'\"'")
    return f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''"
