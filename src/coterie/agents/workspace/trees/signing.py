"""Sign the commits of Coterie where the user's are, if that works without a question.

Only the user's own configuration says which program signs: that of a repository may be an agent's.
"""

import re
import shlex
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from coterie.agents.workspace.trees.git import Repository
from coterie.errors import GitFailed

WITHIN = 10.0
"""Seconds that a signature may take; a key may wait for a touch."""
PAUSE = 300.0
"""Seconds for which a repository whose commits could not be signed is not tried again."""
_PROGRAM = re.compile(r"gpg(\..*)?\.program|gpg\.ssh\.defaultkeycommand")
_DEFAULTS = {"openpgp": "gpg", "x509": "gpgsm"}
_refused: dict[Path, float] = {}


def commit_signed(
    repository: Repository, tree: str, parents: tuple[str, ...], message: str, env: Mapping[str, str] | None = None
) -> str:
    """Write a commit as `Repository.commit` does, and sign it if the user's commits are, without a question."""
    settings = _settings(repository)
    if settings is None or time.monotonic() - _refused.get(repository.common, -PAUSE) < PAUSE:
        return repository.commit(tree, parents, message, env)
    with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
        given = {**(env or {}), "SSH_ASKPASS_REQUIRE": "never"}
        if (kind := settings.get("gpg.format", "openpgp")) in _DEFAULTS:
            usual = settings.get("gpg.program", _DEFAULTS[kind]) if kind == "openpgp" else _DEFAULTS[kind]
            program, script = settings.get(f"gpg.{kind}.program", usual), Path(folder) / "sign"
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} --batch --no-tty --pinentry-mode error "$@"\n')
            script.chmod(0o700)
            given["GIT_CONFIG_PARAMETERS"] = f"'gpg.{kind}.program={script}'"
        try:
            return repository.commit(tree, parents, message, given, sign=WITHIN)
        except GitFailed:
            _refused[repository.common] = time.monotonic()
    return repository.commit(tree, parents, message, env)


def lacks_signature(repository: Repository, commit: str) -> bool:
    """Whether *commit* has no signature, although the user's commits have one."""
    if _settings(repository, programs=True) is None:
        return False
    header = repository.call("cat-file", "commit", commit).out.partition("\n\n")[0]
    return header != "" and "\ngpgsig" not in header


def _settings(repository: Repository, *, programs: bool = False) -> dict[str, str] | None:
    """The configuration; None if commits are not signed, or, unless *programs*, a repository says by what."""
    fields = repository.output("config", "--list", "--show-scope", "-z").split("\0")
    found = {}
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, separator, value = entry.partition("\n")
        if scope in ("local", "worktree") and _PROGRAM.fullmatch(key) and not programs:
            return None
        if scope != "command":
            found[key] = value if separator else "true"
    return found if found.get("commit.gpgsign", "").lower() in ("true", "yes", "on", "1") else None
