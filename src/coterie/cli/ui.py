"""`coterie ui`: see runs in a browser, and steer them."""

from pathlib import Path
from typing import Annotated

from coterie.cli.options import STATE_DIR, HomeOptions
from coterie.cli.output import say
from coterie.cli.parameters import Arg, Opt


def ui(
    target: Annotated[
        str | None,
        Arg(
            metavar="[RUN|FILE]",
            help="The run to show first, or a team's file to show without a run.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, Opt("--host", metavar="H", help="Listen there.")] = "127.0.0.1",
    port: Annotated[int, Opt(min=0, max=65535, metavar="N", help="By default that of the last start.")] = 0,
    no_open: Annotated[bool, Opt("--no-open", help="Do not open the browser.")] = False,
    read_only: Annotated[bool, Opt("--read-only", help="Show runs only; serve no action.")] = False,
    tls_cert: Annotated[
        Path | None, Opt(metavar="FILE", help="A certificate, needed if other machines are let in.")
    ] = None,
    tls_key: Annotated[Path | None, Opt(metavar="FILE", help="Its key.")] = None,
    insecure: Annotated[bool, Opt("--insecure", help="Let other machines in without TLS.")] = False,
    *,
    home: HomeOptions,
) -> int:
    """Show all runs in the browser, live, and act on them.

    Prints the address; Ctrl-C ends the server. It does not drive runs: they go on without it. The page shows what needs
    you, what is at work and what ended; of a run its plan, timeline, tree, records and cost; of a turn its prompt,
    output, tools and files. Each action shows the command that does the same.
    """
    from coterie.cli.signals import drive
    from coterie.errors import UsageError
    from coterie.formats.files import SUFFIXES
    from coterie.formats.folders import loop_folder
    from coterie.runs.repository import LocalRuns, find
    from coterie.ui.serve import PageOptions, serve

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
    drive(serve(homes, options, say), lambda: "closing the page; the runs continue")
    return 0
