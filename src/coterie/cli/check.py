"""`coterie topology check`: what can be proved of a team before anything is spent."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import AsJson, Set
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.planning.plan import Plan
    from coterie.proofs import Prices, Report


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to check.", show_default=False)],
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USD|AGENT=USD", help="What a turn costs, of any agent or of one; repeat it.", show_default=False
        ),
    ] = None,
    scripts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the run that shows each finding into DIR.", show_default=False),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Look at no more than N states (100000).", show_default=False),
    ] = None,
    params: Set = None,
    as_json: AsJson = False,
) -> int:
    """Prove what a team can do, before it is run.

    Says whether every run ends, the most and the fewest turns it can take, what it can cost, and what can go otherwise
    than one may think; each with the shortest run that shows it, as a script for `run --rehearse`. Nobody is asked and
    no command of the team is run. The status is 1 when something is wrong, or there is nothing to run; warnings do not
    count. Of a file that is wrong --json says what validate would: {"file", "valid", "diagnostics"}.
    """
    from coterie.cli.inputs import pair
    from coterie.cli.team_file import examine
    from coterie.cli.text import proofs as text
    from coterie.planning.loop import LoopGiven
    from coterie.proofs import STATES
    from coterie.proofs import check as prove

    words = params or ()
    found = examine(file, params=dict(map(pair, words)), given=LoopGiven(overrides=tuple(words))).for_a_run()
    if found.plan is None or not found.valid:
        if as_json:
            say_json(found.to_dict())
        for diagnostic in found.diagnostics if not as_json else ():
            complain(diagnostic.render(found.text).rstrip("\n"))
        return 1
    for diagnostic in found.of_the_command_line:
        complain(diagnostic.render(found.text).rstrip("\n"))
    report = prove(found.plan, _prices(price or [], found.plan), states=states or STATES, topology=found.topology)
    written = _write(report, scripts) if scripts is not None else {}
    if as_json:
        say_json({"file": str(file), **report.to_dict()})
    else:
        say(text.proof(report, str(file), found.text, written))
    return int(report.has_errors)


def _prices(words: list[str], plan: "Plan") -> "Prices | None":
    """The prices that *words* give: `0.02` for every turn, `reviewer=0.10` for those of one agent."""
    from coterie.diagnostics import did_you_mean
    from coterie.errors import UsageError
    from coterie.proofs import Prices
    from coterie.proofs.measures import asked_paths

    if not words:
        return None
    turn, agents, known = 0.0, dict[str, float](), list(asked_paths(plan))
    for word in words:
        name, _, amount = word.rpartition("=")
        try:
            dollars = float(amount)
        except ValueError:
            dollars = math.nan
        if not 0 <= dollars < math.inf:
            raise UsageError(f"--price wants dollars, or AGENT=DOLLARS, not {word!r}")
        if not name:
            turn = dollars
        elif name in known:
            agents[name] = dollars
        else:
            raise UsageError(f"--price: no run asks {name!r}; {did_you_mean(name, known) or ', '.join(known)}")
    return Prices(turn=turn, agents=agents)


def _write(report: "Report", folder: Path) -> dict[str, str]:
    """Write the scripts of *report* into *folder*; give the file of each by what it shows."""
    import json

    from coterie.cli.text.proofs import shown

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, script in shown(report).items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(script, indent=2) + "\n", encoding="utf-8")
        files[name] = str(path)
    return files
