"""Syncs that return at once: they cost the tests more time than anything else, and only a power cut would show it.

What the journal asks of the disk, and when, is tested by replacing the calls; a process that is really started, rather
than forked (`preforked`), does sync.
"""

import os


def apply() -> None:
    """Have `os.fsync` and `os.fdatasync` of this process do no more than check the descriptor."""
    if not os.environ.get("COTERIE_TESTS_REAL"):
        os.fsync = _checked
        if hasattr(os, "fdatasync"):
            os.fdatasync = _checked


def _checked(fd: int) -> None:
    os.fstat(fd)
