"""`coterie doctor`: find problems on this machine and in this folder, with their remedies."""

from pathlib import Path

from coterie.interfaces.cli.options import STATE_DIR, AsJson, StateDir
from coterie.interfaces.cli.output import print_result


def doctor(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Check this machine and this folder for problems.

    Checks Python and the extras, the keys of model providers (only whether they are set), the backends that a run can
    use here and their logins as far as they are known, the state directories with their disk and locks, unfinished
    runs, the teams in the current folder, and whether the configured servers of Temporal, PostgreSQL and NATS can be
    reached. Changes nothing. The exit status is 1 if a check fails.
    """
    from coterie.base.version import __version__
    from coterie.execution.cluster.servers import servers
    from coterie.execution.runs.checkups import CHECKS, DoctorContext, examine
    from coterie.interfaces.cli.text.findings import findings

    found = examine(DoctorContext(Path(), state_dir, __version__), (*CHECKS, servers))
    failed = any(one.status == "fail" for one in found)
    print_result(as_json, {"ok": not failed, "findings": found}, lambda: findings(found))
    return int(failed)
