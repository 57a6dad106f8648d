"""`coterie topology check`: prove properties of a team before it runs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.base.waits import waiting
from coterie.interfaces.cli.options import AsJson, Set
from coterie.interfaces.cli.output import print_result, report, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.proofs import Prices, Report
    from coterie.team.planning.plan import Plan


def check(
    file: Annotated[Path, Arg("FILE", "The file to check.")],
    price: Annotated[
        list[str] | None, Opt("--price USD|AGENT=USD", "The price of a turn, for all agents or for one. Repeatable.")
    ] = None,
    scripts: Annotated[Path | None, Opt("--scripts DIR", "Write the script that shows each finding into DIR.")] = None,
    states: Annotated[int | None, Opt("--states N", "Explore at most N states (100000).", min=1)] = None,
    params: Set = None,
    as_json: AsJson = False,
) -> int:
    """Prove what a team can do before it runs.

    Reports whether every run ends, the maximum and minimum number of turns, the maximum cost, and likely mistakes, each
    with the shortest run that shows it as a script for `run --rehearse`. No backend is called and no command of the
    team runs. A supervised system has no end, so only its teams can be checked. The exit status is 1 on errors or if
    there is nothing to run; warnings do not count. For an invalid file,
    --json prints the same as `topology validate`: {"file", "valid", "diagnostics"}.
    """
    from coterie.interfaces.cli.inputs import pair
    from coterie.interfaces.cli.team_file import examine
    from coterie.interfaces.cli.text.proofs import proof
    from coterie.proofs import STATES
    from coterie.proofs import check as prove
    from coterie.team.planning.loop import LoopGiven

    words = params or ()
    found = examine(file, params=dict(map(pair, words)), given=LoopGiven(overrides=tuple(words))).for_a_run()
    found.check_options()
    if found.is_system and found.valid:
        from coterie.errors import UsageError

        hint = "check the files of its flows, loops and patterns instead"
        raise UsageError(f"{str(file)!r} is a supervised system, which has no end to prove: {hint}")
    if found.plan is None or not found.valid:
        if as_json:
            say_json(found.to_dict())
        else:
            report(found.diagnostics, found.text)
        return found.exit
    with waiting(f"the proof of {file}"):
        proved = prove(found.plan, _prices(price or [], found.plan), states=states or STATES, topology=found.topology)
    written = _write(proved, scripts) if scripts is not None else {}
    value = {"file": str(file), **proved.to_dict()}
    print_result(as_json, value, lambda: proof(proved, str(file), found.text, written))
    return int(proved.has_errors)


def _prices(words: list[str], plan: "Plan") -> "Prices | None":
    """Return the prices from *words*: `0.02` for every turn, `reviewer=0.10` for those of one agent."""
    from coterie.base.diagnostics import did_you_mean
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
            raise UsageError(f"--price must be USD or AGENT=USD, not {word!r}")
        if not name:
            turn = dollars
        elif name in known:
            agents[name] = dollars
        else:
            raise UsageError(f"--price: no run calls {name!r}; {did_you_mean(name, known) or ', '.join(known)}")
    return Prices(turn=turn, agents=agents)


def _write(report: "Report", folder: Path) -> dict[str, str]:
    """Write the scripts of *report* into *folder*; return the file of each by the name of its finding."""
    import json

    from coterie.interfaces.cli.text.proofs import shown

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, script in shown(report).items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(script, indent=2) + "\n", encoding="utf-8")
        files[name] = str(path)
    return files
