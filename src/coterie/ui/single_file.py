"""A run as one page that opens without a server and without a network: `coterie inspect RUN html`.

The page's modules become one script, each as a function; the data is in the file, compressed. Its
policy allows this script and this style only, by their hashes, and no connection at all.
"""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from coterie import __version__
from coterie.errors import CoterieError
from coterie.journal.records import TreeSaved
from coterie.proofs.worst_case import costs_and_bound
from coterie.runs.attempt_output import StreamReader
from coterie.runs.changed_files import changed_files
from coterie.runs.repository import Runs
from coterie.runs.turn_detail import details
from coterie.views import timeline
from coterie.views.failure import first_failure
from coterie.views.live import LiveRun, fold

PAGE: Final = Path(__file__).parent / "page"
ENTRY: Final = "file.js"
LARGEST: Final = 1_300_000
"""Bytes of compressed data; more is made less, in steps that the page names."""
CAUSES: Final = 20
"""Causes of a turn that are kept."""
_FILES_OF: Final = 50
"""Turns whose changed files are looked for: git is called for each."""

_IMPORT = re.compile(r'(?:^|(?<=;))import\s*(?:(\w+)|\{([^}]*)\})\s*from\s*"([^"]+)";?', re.MULTILINE)
_EXPORT_FROM = re.compile(r'^export\s*\{([^}]*)\}\s*from\s*"([^"]+)";?', re.MULTILINE)
_EXPORT_LIST = re.compile(r"(?:^|(?<=[;}]))export\s*\{([^}]*)\};?", re.MULTILINE)
_EXPORTED = re.compile(r"^export\s+((?:async\s+)?function|const|class)\s+(\w+)", re.MULTILINE)
_DEFAULT = re.compile(r"(?:^|(?<=[;}]))export default\s*", re.MULTILINE)


def page_of(runs: Runs, run: str) -> str:
    """The root run *run* as one HTML file.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
    """
    live = fold(runs.history(run), run)
    for step, lost in enumerate(_STEPS):
        data = gzip.compress(msgspec.json.encode(_data(runs, live, step, lost), enc_hook=str), 9, mtime=0)
        if len(data) <= LARGEST:
            break
    return _document(live.runs[run].view.topology, base64.b64encode(data).decode())


_STEPS: Final = (
    "",
    "the raw records",
    "the raw records, and what is longer than 4 kB in prompts and outputs",
    "the raw records, and all of prompts and outputs but their ends",
)
"""What is left out in each step."""
_CUT: Final = (None, None, 4000, 300)


def _data(runs: Runs, live: LiveRun, step: int, lost: str) -> dict[str, Any]:
    """All that the views show of a run, as the API gives it."""
    root, tables = live.run, live.state() | {"costs": {}}  # "cost" has their sums
    turns = {_address(run, turn.id): (run, turn.id) for run in live.runs for turn in live.runs[run].view.turns}
    cut = _cutter(_CUT[step])
    return {
        "key": root,
        "lost": lost,
        "version": __version__,
        "state": tables | {"here": {"run": {"key": root, "run": root, "option": "", "folder": "", "owned": False}}},
        "turns": {address: cut(one) for run in live.runs for address, one in _details(runs, run)},
        "outputs": cut(_outputs(runs, root)),
        "files": {address: _files(runs, *at, cut) for address, at in [*turns.items()][: _files_of(runs, root)]},
        "lines": {run: timeline.fold(runs.read(run)).lines for run in live.runs},
        "records": {run: list(runs.read(run)) for run in live.runs} if step == 0 else {},
        "cost": costs_and_bound(live),
        "failure": first_failure(live),
    }


def _address(run: str, turn: str) -> str:
    """The address of *turn* of *run* in the root run."""
    below = run.partition("/")[2]
    return f"{below}/{turn}" if below else turn


def _details(runs: Runs, run: str) -> Iterator[tuple[str, Any]]:
    """Every turn of *run* with its address, as the API gives it, up to the first that cannot be made again."""
    with suppress(OSError, CoterieError):
        for one in details(runs, run):
            data = one.data()
            data["causes"] = data["causes"][:CAUSES]
            yield _address(run, one.view.id), msgspec.to_builtins(data, enc_hook=str)


def _outputs(runs: Runs, root: str) -> dict[str, list[dict[str, Any]]]:
    """What is kept of what each turn printed and did, by its address."""
    found: dict[str, list[dict[str, Any]]] = {}
    with suppress(OSError, CoterieError):
        for one in StreamReader(runs, root).read():
            event = {"attempt": one.attempt, "event": msgspec.to_builtins(one.event)}
            found.setdefault(_address(one.run, one.turn), []).append(event)
    return found


def _files_of(runs: Runs, root: str) -> int:
    """Of how many turns the changed files are looked for; without snapshots of none."""
    return _FILES_OF if any(isinstance(record, TreeSaved) for _, record in runs.history(root)) else 0


def _files(runs: Runs, run: str, turn: str, cut: Callable[[Any], Any]) -> Any:
    try:
        return cut(msgspec.to_builtins(changed_files(runs, run, turn)))
    except (OSError, CoterieError) as error:
        return {"error": str(error)}


def _cutter(most: int | None) -> Callable[[Any], Any]:
    """Shortens the texts in plain data to *most* characters, of each the end."""

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
    script = bundled(ENTRY)
    style = "".join((PAGE / name).read_text(encoding="utf-8") for name in ("look.css", "views.css"))
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; connect-src 'none'; "
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
<script>{script}</script></body>
</html>"""


def bundled(entry: str) -> str:
    """The module *entry* of the page, and all that it imports, as one script."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        code = (PAGE / name).read_text(encoding="utf-8")
        for target in (*(one[3] for one in _IMPORT.finditer(code)), *(one[2] for one in _EXPORT_FROM.finditer(code))):
            add(_beside(name, target))
        parts[name] = _as_function(name, code)

    add(entry)
    return '"use strict";const M={};\n' + "".join(parts.values())


def _as_function(name: str, code: str) -> str:
    exports: list[str] = []

    def imported(found: "re.Match[str]") -> str:
        module = f'M["{_beside(name, found[3])}"]'
        return f"const {found[1]}={module}.default;" if found[1] else f"const {{{_renamed(found[2])}}}={module};"

    def passed_on(found: "re.Match[str]") -> str:
        names = [one.split(" as ")[-1].strip() for one in found[1].split(",") if one.strip()]
        exports.extend(names)
        return f'const {{{",".join(names)}}}=M["{_beside(name, found[2])}"];'

    def listed(found: "re.Match[str]") -> str:
        for one in filter(None, (part.strip() for part in found[1].split(","))):
            inner, _, outer = one.partition(" as ")
            exports.append(f"{outer}:{inner}" if outer else inner)
        return ""

    def declared(found: "re.Match[str]") -> str:
        exports.append(found[2])
        return f"{found[1]} {found[2]}"

    code = _IMPORT.sub(imported, code)
    code = _EXPORT_FROM.sub(passed_on, code)
    code = _EXPORT_LIST.sub(listed, code)
    code = _EXPORTED.sub(declared, code)
    if _DEFAULT.search(code):
        code = _DEFAULT.sub("const default_=", code)
        exports.append("default:default_")
    return f'M["{name}"]=(()=>{{{code}\nreturn{{{",".join(exports)}}};}})();\n'


def _renamed(names: str) -> str:
    return ",".join(one.strip().replace(" as ", ":") for one in names.split(",") if one.strip())


def _beside(name: str, target: str) -> str:
    """The module that *name* imports as *target*."""
    return (PAGE / name).parent.joinpath(target).resolve().relative_to(PAGE.resolve()).as_posix()
