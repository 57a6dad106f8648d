"""A run as one page that opens without a server and without a network: `coterie inspect RUN html`.

An import map has the page's modules as `data:` URLs, unchanged; the data is in the file, compressed. Its policy allows
no connection, only this style, and only scripts with the nonce, which modules inherit from the module that imports
them. The nonce is a hash of the whole content, so that no text of a run can contain it.
"""

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from coterie.base.clock import SystemClock
from coterie.base.version import __version__
from coterie.errors import CoterieError
from coterie.execution.runs.attempt_output import StreamReader
from coterie.execution.runs.changed_files import changed_files
from coterie.execution.runs.endings import standing
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.turn_detail import details
from coterie.history.journal.records import TreeSaved
from coterie.history.views import timeline
from coterie.history.views.failure import first_failure
from coterie.history.views.live import LiveRun, fold
from coterie.proofs.worst_case import costs_and_bound

PAGE: Final = Path(__file__).parent / "page"
LARGEST: Final = 1_300_000
"""The maximum size of the compressed data in bytes; larger data is reduced in steps, which the page names."""
CAUSES: Final = 20
"""The number of causes of a turn to keep."""
_FILES_OF: Final = 50
"""The number of turns whose changed files are determined: git is called for each."""


def page_of(runs: Runs, run: str) -> str:
    """The root run *run* as one HTML file.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
    """
    live = fold(runs.history(run), run)
    here = {"key": run, "run": run, "option": "", "folder": ""} | msgspec.to_builtins(standing(runs, live))
    whole = _data(runs, live, here)
    for step in range(len(_STEPS)):
        data = gzip.compress(msgspec.json.encode(_reduced(whole, step), enc_hook=str), 9, mtime=0)
        if len(data) <= LARGEST:
            break
    return _document(live.runs[run].view.topology, base64.b64encode(data).decode())


_STEPS: Final = (
    "",
    "the raw records",
    "the raw records, and what is longer than 4 kB in prompts and outputs",
    "the raw records, and all of prompts and outputs but their ends",
)
"""The omitted data of each step."""
_CUT: Final = (None, None, 4000, 300)


def _data(runs: Runs, live: LiveRun, here: dict[str, Any]) -> dict[str, Any]:
    """All data of the views of a run, as the API gives it."""
    root, tables = live.run, live.state() | {"costs": {}}  # "cost" has their sums
    turns = {_address(run, turn.id): (run, turn.id) for run in live.runs for turn in live.runs[run].view.turns}
    return {
        "key": root,
        "lost": "",
        "version": __version__,
        "state": tables | {"here": {"run": here}},
        "saved": SystemClock().now() if here["owned"] else 0.0,  # what was at work lasted until then
        "turns": {address: one for run in live.runs for address, one in _details(runs, run)},
        "outputs": _outputs(runs, root),
        "files": {address: _files(runs, *at) for address, at in [*turns.items()][: _files_of(runs, root)]},
        "lines": {run: timeline.fold(runs.read(run)).lines for run in live.runs},
        "records": {run: list(runs.read(run)) for run in live.runs},
        "cost": costs_and_bound(live),
        "failure": first_failure(live),
    }


def _reduced(whole: dict[str, Any], step: int) -> dict[str, Any]:
    """The data without what it loses in *step*."""
    cut = _cutter(_CUT[step])
    shorter = {name: cut(whole[name]) for name in ("turns", "outputs", "files")}
    return whole | shorter | {"lost": _STEPS[step]} | ({"records": {}} if step else {})


def _address(run: str, turn: str) -> str:
    """The address of *turn* of *run* in the root run."""
    below = run.partition("/")[2]
    return f"{below}/{turn}" if below else turn


def _details(runs: Runs, run: str) -> Iterator[tuple[str, Any]]:
    """Every turn of *run* with its address, as the API gives it, up to the first that cannot be reconstructed."""
    with suppress(OSError, CoterieError):
        for one in details(runs, run):
            data = one.data()
            data["causes"] = data["causes"][:CAUSES]
            yield _address(run, one.view.id), msgspec.to_builtins(data, enc_hook=str)


def _outputs(runs: Runs, root: str) -> dict[str, list[dict[str, Any]]]:
    """The kept output and actions of each turn, by its address."""
    found: dict[str, list[dict[str, Any]]] = {}
    with suppress(OSError, CoterieError):
        for one in StreamReader(runs, root).read():
            event = {"attempt": one.attempt, "event": msgspec.to_builtins(one.event)}
            found.setdefault(_address(one.run, one.turn), []).append(event)
    return found


def _files_of(runs: Runs, root: str) -> int:
    """The number of turns whose changed files are determined; 0 without snapshots."""
    return _FILES_OF if any(isinstance(record, TreeSaved) for _, record in runs.history(root)) else 0


def _files(runs: Runs, run: str, turn: str) -> Any:
    try:
        return msgspec.to_builtins(changed_files(runs, run, turn))
    except (OSError, CoterieError) as error:
        return {"error": str(error)}


def _cutter(most: int | None) -> Callable[[Any], Any]:
    """A function that shortens each text in plain data to its last *most* characters."""

    def cut(value: Any) -> Any:
        match value:
            case str() if most is not None and len(value) > most:
                return f"…{value[-most:]}"
            case dict():
                return {name: cut(one) for name, one in value.items()}
            case list() | tuple():
                return [cut(one) for one in value]
        return value

    return cut if most is not None else lambda value: value


def _document(title: str, data: str) -> str:
    style = "".join((PAGE / name).read_text(encoding="utf-8") for name in ("look.css", "views.css"))
    urls = {f"page/{one.relative_to(PAGE).as_posix()}": _url(one) for one in sorted(PAGE.rglob("*.js"))}
    modules = json.dumps({"imports": urls})
    nonce = _digest(modules, style, title, data)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'sha256-{_digest(style)}'; connect-src 'none'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · Coterie</title>
<style>{style}</style>
<body><div id="app"><noscript>This page needs JavaScript.</noscript></div>
<script type="application/octet-stream" id="data">{data}</script>
<script type="importmap" nonce="{nonce}">{modules}</script>
<script type="module" nonce="{nonce}">import "page/file.js";</script></body>
</html>"""


def _url(module: Path) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(module.read_bytes()).decode()}"


def _digest(*texts: str) -> str:
    return base64.b64encode(hashlib.sha256("".join(texts).encode()).digest()).decode()
