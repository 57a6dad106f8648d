"""Calls in a process that may use only so much memory and time."""

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import preforked
import preforking

MEMORY, SECONDS = 512 * 1024 * 1024, 10


def small_files(size: int) -> dict[str, Any]:
    """The options of a process whose files may have *size* bytes. It compiles no modules: Python keeps half of one."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"preexec_fn": partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size)), "env": environment}


def coterie(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`coterie` with *words*; it is killed when it takes more than 512 MB or 10 s of processor time."""
    if preforked.can_fork(os.environ):
        return preforked.run(*words, cwd=cwd, env=os.environ | {preforking.LIMITS: f"{MEMORY} {SECONDS}"})
    return _limited([*preforked.REAL, *words], cwd)


def python(program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A *program* under the same limits."""
    return _limited([sys.executable, "-c", program, *words], cwd)


def _limited(argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, preexec_fn=limit, check=False)
