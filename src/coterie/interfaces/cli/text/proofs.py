"""Text for the proved properties of a team."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import TYPE_CHECKING

from coterie.history.views.words import dollars, listed, plural

if TYPE_CHECKING:
    from coterie.proofs import Finding, Report
    from coterie.proofs.witness import Script

_TASK = '"…"'
_NAMED = 12
"""Number of agents whose turns are listed in a line."""


def proof(report: "Report", file: str, source: str, written: Mapping[str, str]) -> str:
    """Return the report on the team of *file*, whose text is *source*; *written* are the files of the scripts."""
    lines: list[str] = []
    for name, finding in named(report).items():
        lines.append(finding.diagnostic(file).render(source).rstrip("\n"))
        lines += _replay(name, file, written)
    return "\n".join(
        [
            *lines,
            f"{file}: {_ends(report)}",
            *_worst(report, file, written),
            *_usual(report),
            *_best(report, file, written),
        ]
    )


def named(report: "Report") -> dict[str, "Finding"]:
    """Return the findings by unique name: the code, numbered if it occurs more than once."""
    codes = Counter(finding.code for finding in report.findings)
    seen: Counter[str] = Counter()
    found: dict[str, Finding] = {}
    for finding in report.findings:
        seen[finding.code] += 1
        found[finding.code if codes[finding.code] == 1 else f"{finding.code}-{seen[finding.code]}"] = finding
    return found


def shown(report: "Report") -> dict[str, "Script"]:
    """Return the scripts of a report by name: `worst`, `best`, and those of the findings."""
    cases = {"worst": report.worst, "best": report.best}
    scripts = {name: case.script for name, case in cases.items() if case is not None and case.script is not None}
    return scripts | {name: each.script for name, each in named(report).items() if each.script is not None}


def _ends(report: "Report") -> str:
    if report.method == "exact":
        how = f"{plural(report.states, 'state')} explored"
        return f"every run ends ({how})" if report.ends else f"some runs may not end ({how})"
    return "every run ends (counted)" if report.ends else "not proved that every run ends"


def shares(turns: Mapping[str, int]) -> str:
    """Return the turns of each agent, `writer 3, reviewer 3`; of many agents, those with the most turns."""
    most = set(nlargest(_NAMED, turns, key=lambda name: turns[name]))
    named = ", ".join(f"{name} {count}" for name, count in turns.items() if name in most)
    return named + (f" and {plural(len(turns) - _NAMED, 'agent')} more" if len(turns) > _NAMED else "")


def _worst(report: "Report", file: str, written: Mapping[str, str]) -> Iterable[str]:
    if report.worst is None:
        return
    agents = shares(report.worst.agents)
    doubt = "" if report.method == "exact" else "; not proved to be reachable"
    yield f"  at most {plural(report.worst.turns, 'turn')}{f' ({agents})' if agents else ''}{doubt}"
    yield from _replay("worst", file, written)
    if report.cost is not None:
        retries = ""
        if report.cost.attempts != report.cost.turns:
            retries = f"; {dollars(report.cost.attempts)} if every turn uses all its retries"
        yield f"  at most {dollars(report.cost.turns)}{retries}"


def _usual(report: "Report") -> Iterable[str]:
    if report.usual is not None:
        agents = ", ".join(f"{name} {count}" for name, count in report.usual.agents.items())
        yield f"  usually {plural(report.usual.turns, 'turn')} ({agents}), when nothing fails or ends early"


def _best(report: "Report", file: str, written: Mapping[str, str]) -> Iterable[str]:
    if report.best is not None:
        yield f"  at least {plural(report.best.turns, 'turn')}, when nothing fails"
        yield from _replay("best", file, written)
    waiting = [join.node for join in report.joins if join.whole]
    if waiting:
        yield f"  {listed(waiting)} always {'wait' if len(waiting) > 1 else 'waits'} for all branches"


def _replay(name: str, file: str, written: Mapping[str, str]) -> Iterable[str]:
    if name in written:
        limit = " --max-turns 100" if name.startswith("endless") else ""
        yield f"    reproduce: coterie run {shlex.quote(file)} {_TASK} --rehearse {shlex.quote(written[name])}{limit}"
