"""Options that several commands share, alone and in groups.

A group is a `Struct`: a command that takes one has each of its fields as an option (`coterie.cli.app`).
"""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from coterie.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette
    from coterie.planning.plan import Limits
    from coterie.runs.repository import Where

STATE_DIR = Path(".coterie")
PARALLEL = 16
"""Turns that run at once unless an option says otherwise."""

Wide = Annotated[bool, Opt("--wide", help="Show all in full, however long a line becomes.")]
AsJson = Annotated[bool, Opt("--json", help="Print the result as JSON.")]
StateDir = Annotated[
    Path,
    Opt("--state-dir", metavar="DIR", help="Where runs are kept (.coterie, .autoloop).", show_default=False),
]
Cluster = Annotated[
    str | None,
    Opt(
        "--cluster",
        metavar="URL",
        help="A cluster, temporal://HOST:7233/NAMESPACE?export=…, instead of this machine; by default COTERIE_CLUSTER, "
        "or the setting `cluster.url`. Empty: this machine.",
        show_default=False,
    ),
]
Run = Annotated[str, Arg(metavar="RUN", help="A run's id, the beginning of one, or 'last'.")]
Backend = Annotated[str | None, Opt("--backend", "-b", metavar="B", help="The backend of agents without one.")]
Prompt = Annotated[
    list[str] | None,
    Arg(metavar="PROMPT", help="The prompt for the team; '-' reads it from standard input."),
]
Named = Annotated[
    list[str] | None, Opt("--input", metavar="K=V", help="A named input: k=text, or k:=JSON. Repeatable.")
]
InputFile = Annotated[
    Path | None,
    Opt("--input-file", metavar="FILE", help="Named inputs from a JSON object, or the prompt from any other file."),
]
Set = Annotated[
    list[str] | None,
    Opt(
        "--set",
        metavar="K=V",
        help="A parameter of the team, k=text or k:=JSON, or a setting of a pattern or a loop. Repeatable.",
    ),
]


LogFormat = Annotated[
    Literal["text", "json"],
    Opt("--log-format", help="Progress and notices as text, or as one line of JSON for each event.", metavar="F"),
]


class HomeOptions(Struct, frozen=True, kw_only=True):
    """Where runs are kept: a directory, or a cluster."""

    state_dir: StateDir = STATE_DIR
    cluster: Cluster = None

    @property
    def where(self) -> "Where":
        """The place; a directory that was given comes before a cluster that was only configured."""
        from coterie.cluster.address import ClusterAddress

        configured = self.cluster is None and self.state_dir != STATE_DIR
        address = None if configured else ClusterAddress.given(self.cluster)
        if address is None:
            return self.state_dir
        import atexit

        from coterie.cluster.runs import ClusterLocation

        found = ClusterLocation(
            address, self.state_dir, f" --cluster {shlex.quote(self.cluster)}" if self.cluster else ""
        )
        atexit.register(found.close)
        return found


def _turns(text: str) -> int:
    from typer import BadParameter

    from coterie.planning.plan import NO_LIMIT

    if text.lower() == "none":
        return NO_LIMIT
    if not text.isascii() or not text.isdigit():
        raise BadParameter(f"{text!r} is not a whole number from 0, or none.")
    return int(text)


def _dollars(text: str) -> float:
    from typer import BadParameter

    from coterie.planning.plan import NO_LIMIT

    if text.lower() == "none":
        return NO_LIMIT
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0.0 <= amount < float("inf"):
        raise BadParameter(f"{text!r} is not a number from 0, or none.")
    return amount


class LimitOptions(Struct, frozen=True, kw_only=True):
    """The limits of a run."""

    max_turns: Annotated[
        int | None,
        Opt(parser=_turns, metavar="N", help="Start at most N turns, then stop; a resume keeps this. none: no limit."),
    ] = None
    max_cost: Annotated[
        float | None,
        Opt(
            parser=_dollars,
            metavar="USD",
            help="Stop at this budget, of which estimates are reserved; a resume keeps it. none: no limit.",
        ),
    ] = None
    max_parallel: Annotated[int | None, Opt(min=1, metavar="N", help="Run at most N turns at once (16).")] = None

    def limits(self, parallel: int | None = PARALLEL, add_iterations: int = 0) -> "Limits":
        """The limits that were given, with *parallel* turns at once by default."""
        from coterie.planning.plan import Limits

        return Limits(
            max_turns=self.max_turns,
            max_cost=self.max_cost,
            max_parallel=self.max_parallel or parallel,
            add_iterations=add_iterations,
        )


class DriveOptions(Struct, frozen=True, kw_only=True):
    """How a command that runs a team waits for humans, calls models and reports the outcome."""

    park: Annotated[
        bool | None,
        Opt(
            "--park/--no-park",
            help="Exit with status 4 when only humans can continue (default without a terminal), or wait for them.",
        ),
    ] = None
    wait_quota: Annotated[
        bool,
        Opt("--wait-quota", help="Wait here until a spent quota opens again, instead of stopping (status 3)."),
    ] = False
    cassette: Annotated[
        str | None,
        Opt(
            metavar="[MODE:]FILE",
            help="Answer model calls from a recording; record:FILE makes one, auto:FILE adds missing answers.",
        ),
    ] = None
    as_json: AsJson = False
    log_format: LogFormat = "text"

    def recording(self) -> "Cassette | None":
        """The recording that --cassette names, or else the environment."""
        if self.cassette is None and "COTERIE_CASSETTE" not in os.environ:
            return None
        from coterie.backends.models.cassette import Cassette

        return Cassette.from_environment(os.environ) if self.cassette is None else Cassette.named(self.cassette)
