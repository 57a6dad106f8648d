"""What the machine lacks, as programs say it."""

import errno
import os

from coterie.base.shortages import shortage
from coterie.errors import GitFailed


def test_git_says_in_its_own_words_that_a_disk_is_full() -> None:
    """The space may be there again when somebody looks: git removes what it could not finish."""
    said = "fatal: sha1 file 'index.lock' write error. Out of diskspace"

    assert shortage(GitFailed(("add",), 128, said)) == f"git add failed (128): {said}"
    assert shortage(GitFailed(("add",), 128, os.strerror(errno.ENOSPC))) != ""
    assert shortage(GitFailed(("add",), 128, "fatal: not a repository")) == ""
