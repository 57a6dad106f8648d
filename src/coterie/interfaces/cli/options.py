"""Options that several commands share, alone and in groups.

A group is a `Struct`: a command that takes one has each of its fields as an option
(`coterie.interfaces.cli.parameters`).
"""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from coterie.interfaces.cli.parameters import Arg, Opt, number

if TYPE_CHECKING:
    from coterie.agents.backends.models.cassette import Cassette
    from coterie.execution.runs.repository import Where
    from coterie.execution.runs.threads import Continues
    from coterie.team.planning.plan import Limits

STATE_DIR = Path(".coterie")
PARALLEL = 16
"""Turns that run at once unless an option says otherwise."""

Wide = Annotated[bool, Opt("--wide", "Show all in full, however long a line becomes.")]
AsJson = Annotated[bool, Opt("--json", "Print the result as JSON.")]
StateDir = Annotated[Path, Opt("--state-dir DIR", "Where runs are kept (.coterie, .autoloop).")]
Cluster = Annotated[
    str | None,
    Opt(
        "--cluster URL",
        "A cluster, temporal://HOST:7233/NAMESPACE?export=…, instead of this machine; by default COTERIE_CLUSTER, "
        "or the setting `cluster.url`. Empty: this machine.",
    ),
]
Run = Annotated[str, Arg("RUN", "A run's id, the beginning of one, or 'last'.")]
Backend = Annotated[str | None, Opt("-b, --backend B", "The backend of agents without one.")]
Prompt = Annotated[list[str] | None, Arg("PROMPT", "The prompt for the team; '-' reads it from standard input.")]
Named = Annotated[list[str] | None, Opt("--input K=V", "A named input: k=text, or k:=JSON. Repeatable.")]
InputFile = Annotated[
    Path | None, Opt("--input-file FILE", "Named inputs from a JSON object, or the prompt from any other file.")
]
Set = Annotated[
    list[str] | None,
    Opt("--set K=V", "A parameter of the team, k=text or k:=JSON, or a setting of a pattern or a loop. Repeatable."),
]


LogFormat = Annotated[
    Literal["text", "json"],
    Opt("--log-format F", "Progress and notices as text (default), or as one line of JSON for each event."),
]


class HomeOptions(Struct, frozen=True, kw_only=True):
    """Where runs are kept: a directory, or a cluster."""

    state_dir: StateDir = STATE_DIR
    cluster: Cluster = None

    @property
    def where(self) -> "Where":
        """The place; a directory that was given comes before a cluster that was only configured."""
        from coterie.execution.cluster.address import ClusterAddress

        configured = self.cluster is None and self.state_dir != STATE_DIR
        address = None if configured else ClusterAddress.given(self.cluster)
        if address is None:
            return self.state_dir
        import atexit

        from coterie.execution.cluster.runs import ClusterLocation

        found = ClusterLocation(
            address, self.state_dir, f" --cluster {shlex.quote(self.cluster)}" if self.cluster else ""
        )
        atexit.register(found.close)
        return found


def _limit(kind: type[int] | type[float], word: str) -> float:
    """Return the limit in *word*: a number, or `none`."""
    from coterie.team.planning.plan import NO_LIMIT

    return NO_LIMIT if word.lower() == "none" else number(kind, word, 0, also=", or none")


class LimitOptions(Struct, frozen=True, kw_only=True):
    """The limits of a run."""

    max_turns: Annotated[
        int | None,
        Opt(
            "--max-turns N",
            "Start at most N turns, then stop; a resume keeps this. none: no limit.",
            parser=partial(_limit, int),
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        Opt(
            "--max-cost USD",
            "Stop at this budget, of which estimates are reserved; a resume keeps it. none: no limit.",
            parser=partial(_limit, float),
        ),
    ] = None
    max_parallel: Annotated[int | None, Opt("--max-parallel N", "Run at most N turns at once (16).", min=1)] = None

    def limits(self, parallel: int | None = PARALLEL, add_iterations: int = 0) -> "Limits":
        """The limits that were given, with *parallel* turns at once by default."""
        from coterie.team.planning.plan import Limits

        return Limits(
            max_turns=self.max_turns,
            max_cost=self.max_cost,
            max_parallel=self.max_parallel or parallel,
            add_iterations=add_iterations,
        )


class ThreadOptions(Struct, frozen=True, kw_only=True):
    """The thread that a run continues."""

    thread: Annotated[
        str | None, Opt("--thread NAME", "Continue a thread: agents with `thread: true` see its earlier runs.")
    ] = None
    after: Annotated[str, Opt("--after RUN", "The run to continue, if not the latest of the thread.")] = ""
    wait: Annotated[bool, Opt("--wait", "Wait while the thread's latest run has no end.")] = False

    @property
    def continues(self) -> "Continues | None":
        """What the run continues, if anything."""
        from coterie.execution.runs.threads import continued

        return continued(self.thread or "", self.after, wait=self.wait)


class DriveOptions(Struct, frozen=True, kw_only=True):
    """How a command that runs a team waits for humans, calls models and reports the outcome."""

    park: Annotated[
        bool | None,
        Opt(
            "--park / --no-park",
            "Exit with status 4 when only humans can continue (default without a terminal), or wait for them.",
        ),
    ] = None
    wait_quota: Annotated[
        bool, Opt("--wait-quota", "Wait here until a spent quota opens again, instead of stopping (status 3).")
    ] = False
    cassette: Annotated[
        str | None,
        Opt(
            "--cassette [MODE:]FILE",
            "Answer model calls from a recording; record:FILE makes one, auto:FILE adds missing answers.",
        ),
    ] = None
    as_json: AsJson = False
    log_format: LogFormat = "text"

    def recording(self) -> "Cassette | None":
        """The recording that --cassette names, or else the environment."""
        if self.cassette is None and "COTERIE_CASSETTE" not in os.environ:
            return None
        from coterie.agents.backends.models.cassette import Cassette

        return Cassette.from_environment(os.environ) if self.cassette is None else Cassette.named(self.cassette)
