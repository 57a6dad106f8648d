"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the same as JSON.")]
StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir", metavar="DIR", help="Where runs are kept (.coterie, and .autoloop).", show_default=False
    ),
]
OwnStateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Where the run is kept (.coterie; of a loop, where its settings say: .autoloop).",
        show_default=False,
    ),
]
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or 'last'.", show_default=False)
]
MaxTurns = Annotated[
    int | None, typer.Option("--max-turns", min=0, metavar="N", help="Start at most N turns, then stop.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, metavar="USD", help="Start no turn once this much is spent.")
]
MaxParallel = Annotated[
    int | None, typer.Option("--max-parallel", min=1, metavar="N", help="Run at most N turns at once (16).")
]
Park = Annotated[
    bool | None,
    typer.Option(
        "--park/--no-park",
        help="End with status 4 when only humans can go on, or wait for them. Without a terminal it parks.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="K=V",
        help="A parameter of the team, k=text or k:=JSON, or a setting of a pattern or a loop. Repeatable.",
    ),
]
NoSnapshots = Annotated[
    bool, typer.Option("--no-snapshots", help="Do not keep in git what the files are at each turn's end.")
]
Cassette = Annotated[
    str | None,
    typer.Option(
        metavar="[MODE:]FILE",
        help="Answers of models from a recording; record:FILE makes one, auto:FILE adds what it lacks.",
    ),
]
STATE_DIR = Path(".coterie")
