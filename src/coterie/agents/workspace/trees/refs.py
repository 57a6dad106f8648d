"""The names of the refs that a root run has in the user's repository, all below `refs/coterie/RUN/`."""

from urllib.parse import quote

from coterie.history.journal.rules import root_of

REFS = "refs/coterie"


def refs_of(run: str) -> str:
    """The folder of the refs of *run*: those of its root run."""
    return f"{REFS}/{part(root_of(run))}"


def part(name: str) -> str:
    """*name* quoted as a component of a ref, which may not contain `..`, end in `.lock`, or begin or end with a dot."""
    safe = quote(name, safe="#").replace("~", "%7E").replace("..", ".%2E")
    if safe.startswith("."):
        safe = "%2E" + safe[1:]
    return safe[:-5] + "%2Elock" if safe.endswith(".lock") else safe[:-1] + "%2E" if safe.endswith(".") else safe
