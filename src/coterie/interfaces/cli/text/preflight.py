"""Text for what a run may do, change and cost."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coterie.base import files
from coterie.history.views.words import dollars, listed, plural
from coterie.interfaces.cli.text.proofs import shares

if TYPE_CHECKING:
    from coterie.proofs.preflight import Preflight

WIDTH = 80
_SANDBOX = {"off": "no sandbox", "none": "NO SANDBOX works here", "node": "the sandbox of each node"}
_PERMISSIONS = {"granted": "all tools allowed", "person": "asks you for permission", "denied": "none is granted"}
_KINDS = {"command": "programs", "actor": "Python", "human": "people"}


def before(found: "Preflight") -> str:
    """Return the block that is printed before a run: agents, protection, place, worst case and results."""
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in _lines(found)
    )


def _lines(found: "Preflight") -> Iterator[str]:
    kinds = {_KINDS.get(kind, kind): names for kind, names in found.backends.items()}
    yield f"{found.team}: {plural(sum(map(len, kinds.values())), 'agent')}, {_shared(kinds)}"
    safety = [_shared({_SANDBOX.get(one, f"sandbox {one}"): names for one, names in found.sandbox.items()})]
    safety += [_shared({_PERMISSIONS[one]: names for one, names in found.permissions.items()})]
    safety += [f"models may use {listed(found.tools)}"] if found.tools else []
    yield f"  {'; '.join(filter(None, safety)) or 'no tools and no programs'}"
    if found.unconfined:
        yield f"  may execute, without a sandbox, what its agents write: {listed(found.unconfined)}"
    where = f" on {found.branch}" if found.branch else ""
    where += f", with {plural(found.uncommitted, 'uncommitted file')}" if found.uncommitted else ""
    place = "separate git work tree, from" if found.worktree else "works in"
    if found.on_nodes:
        place = "works on the nodes of the cluster, " + ("with the files of" if found.folder else "without files")
    yield f"  {place} {_short(found.folder)}{where}".rstrip()
    most = "turns without limit" if found.turns is None else f"at most {plural(found.turns, 'turn')}"
    most += f" ({shares(found.agents)})" if len(found.agents) > 1 else ""
    if found.max_cost is not None:
        most += f" and {dollars(found.max_cost)}"
    elif found.spends:
        most += "; dollars without limit (--max-cost USD sets one)"
    yield f"  {most}"
    stop = "`coterie control stop RUN` stops it" if found.on_nodes else "Ctrl-C stops it"
    yield f"  recorded in {found.results}; {stop}, `coterie resume {'RUN' if found.on_nodes else 'last'}` continues it"


def _shared(groups: Mapping[str, Sequence[str]]) -> str:
    """The groups with their members, which are not named if there is one group."""
    if len(groups) == 1:
        return next(iter(groups))
    return ", ".join(f"{group} ({', '.join(names)})" for group, names in groups.items())


def _short(folder: str) -> str:
    home = str(files.user_home())
    return f"~{folder.removeprefix(home)}" if folder.startswith(f"{home}/") else folder
