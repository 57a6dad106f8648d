"""`coterie ui`: see runs in a browser, and steer them."""

from functools import partial
from pathlib import Path
from typing import Annotated

from coterie.interfaces.cli.options import STATE_DIR, HomeOptions
from coterie.interfaces.cli.output import announce
from coterie.interfaces.cli.parameters import Arg, Opt


def ui(
    target: Annotated[
        str | None, Arg("[RUN|FILE]", "The run to show first, or a team's file to show without a run.")
    ] = None,
    host: Annotated[str, Opt("--host H", "The address to listen at (127.0.0.1).")] = "127.0.0.1",
    port: Annotated[int, Opt("--port N", "By default that of the last start.", min=0, max=65535)] = 0,
    no_open: Annotated[bool, Opt("--no-open", "Do not open the browser.")] = False,
    read_only: Annotated[bool, Opt("--read-only", "Show runs only; serve no action.")] = False,
    tls_cert: Annotated[
        Path | None, Opt("--tls-cert FILE", "A certificate, needed if other machines are let in.")
    ] = None,
    tls_key: Annotated[Path | None, Opt("--tls-key FILE", "Its key.")] = None,
    insecure: Annotated[bool, Opt("--insecure", "Let other machines in without TLS.")] = False,
    *,
    home: HomeOptions,
) -> int:
    """Show all runs in the browser, live, and act on them.

    Prints the address; Ctrl-C ends the server. It does not drive runs: they go on without it. The page shows what needs
    you, what is at work and what ended; of a run its plan, timeline, tree, records and cost; of a turn its prompt,
    output, tools and files. Each action shows the command that does the same.
    """
    from coterie.errors import UsageError
    from coterie.execution.runs.repository import LocalRuns, find
    from coterie.interfaces.cli.signals import drive
    from coterie.interfaces.ui.serve import PageOptions, serve
    from coterie.team.formats.files import SUFFIXES
    from coterie.team.formats.folders import loop_folder

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together: give both")
    where = home.where
    local = LocalRuns(where if isinstance(where, Path) else STATE_DIR)
    homes = [local] if isinstance(where, Path) else [where, local]
    named = Path(target) if target is not None else None
    is_team = named is not None and (named.suffix in SUFFIXES or (named.is_dir() and loop_folder(named) is not None))
    file = named if is_team else None
    run = find(target, where)[1] if target is not None and file is None else ""
    options = PageOptions(
        host=host,
        port=port,
        open=not no_open,
        read_only=read_only,
        tls=(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None,
        insecure=insecure,
        run=run,
        file=file,
    )
    drive(serve(homes, options, partial(announce, on_stdout=True)), lambda: "closing the page; the runs continue")
    return 0
