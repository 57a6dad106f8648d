"""The checks of `coterie doctor`: machine, installation, backends, state directory, runs, files of a folder.

Each check is a generator of results over a `DoctorContext`, listed in `CHECKS`. Nothing is changed, except that a
folder for trials in the state directory (or beside it) is made and removed. Values of secrets are never shown.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from coterie import formats, planning
from coterie.backends.coding.probes import probes
from coterie.backends.sandbox import choice
from coterie.diagnostics import Severity
from coterie.errors import CoterieError
from coterie.formats.files import SYSTEM_FILES
from coterie.journal.lock import RunLock
from coterie.journal.status import ENDS
from coterie.options.extras import EXTRAS
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.providers import APIS
from coterie.runs import index
from coterie.runs.backend_setup import absent_programs
from coterie.runs.fork import PARTS
from coterie.runs.messages.doorbell import SOCKET_PATH_MOST, socket_path
from coterie.runs.repository import Runs, run_in
from coterie.views.words import plural
from coterie.waits import waiting

OLDEST_PYTHON = (3, 11)
SLOW_SYNC = 0.02
"""Seconds; a disk that takes longer to make a write safe holds every turn up."""
SYNCS = 7
SHOWN = 10
"""Runs and files that are named one by one; the rest are counted."""


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a check.

    Attributes:
        status: `ok`; `note`, worth knowing; `warn`, something will not work well; `fail`, something does not work.
        next: What to do.
    """

    check: str
    status: str
    found: str
    next: str = ""


@dataclass(frozen=True)
class DoctorContext:
    """Where doctor was called, and of which version of coterie."""

    folder: Path
    state_dir: Path
    version: str


Check = Callable[[DoctorContext], Iterator[CheckResult]]


def examine(context: DoctorContext, checks: Sequence[Check]) -> list[CheckResult]:
    """All findings of *checks*, in their order."""
    found = list[CheckResult]()
    for check in checks:
        with waiting(f"the check of {check.__name__.replace('_', ' ')}"):
            found += check(context)
    return found


# -- the machine ------------------------------------------------------------------------------------------------------


def python(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether Python is new enough."""
    found = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info >= OLDEST_PYTHON:
        yield CheckResult(check="python", status="ok", found=found)
    else:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield CheckResult(check="python", status="fail", found=found, next=f"install Python {wanted} or newer")


def installed(context: DoctorContext) -> Iterator[CheckResult]:
    """Which coterie this is, and which extras are there."""
    from importlib.metadata import PackageNotFoundError, version

    yield CheckResult(check="coterie", status="ok", found=context.version)
    for name, extra in EXTRAS.items():
        first, *_ = libraries = extra.libraries.values()
        try:
            found = [f"{library} {version(library)}" for library in libraries]
            yield CheckResult(check=f"extra {name}", status="ok", found=found[0])
        except PackageNotFoundError as missing:
            what = "not installed" if missing.name == first else f"incomplete: {missing.name} is not installed"
            hint = f"pip install 'coterie[{name}]', {extra.purpose}"
            yield CheckResult(check=f"extra {name}", status="note", found=what, next=hint)


def git(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether git is there, for agents that work on repositories."""
    program = shutil.which("git")
    if program is None:
        hint = "install it if agents work on repositories"
        yield CheckResult(check="git", status="note", found="not on the PATH", next=hint)
        return
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    yield CheckResult(check="git", status="ok", found=f"{said.strip().removeprefix('git version ')}, {program}")


def providers(context: DoctorContext) -> Iterator[CheckResult]:
    """Which keys and addresses of model providers the environment holds: their names, never the keys."""
    for api in APIS:
        key, url = f"{api.upper()}_API_KEY", f"{api.upper()}_BASE_URL"
        address = f", at {_without_secrets(os.environ[url])}" if os.environ.get(url) else ""
        if os.environ.get(key):
            yield CheckResult(check=key, status="ok", found=f"is set{address}")
        else:
            hint = f"export {key}=…, to use models of {api}"
            yield CheckResult(check=key, status="note", found=f"is not set{address}", next=hint)


def sandboxes(context: DoctorContext) -> Iterator[CheckResult]:
    """Which sandboxes work here, by a trial of each."""
    for one in choice.IMPLEMENTATIONS:
        why = choice.probe(one.NAME)
        yield CheckResult(check=f"sandbox {one.NAME}", status="note" if why else "ok", found=why or "works")
    if choice.absence():
        hint = "install bubblewrap; agents with `sandbox: required` are refused until one works"
        found = "none works: coding agents can read and write whatever you can"
        yield CheckResult(check="sandbox", status="warn", found=found, next=hint)


def backends(context: DoctorContext) -> Iterator[CheckResult]:
    """Which backends a loop or a preset can use here and now."""
    claude = shutil.which("claude")
    found = f"-b command runs {claude}" if claude else "-b PROGRAM runs any program; `claude` is not on the PATH"
    hint = "" if claude else "install Claude Code to use -b command"
    yield CheckResult(check="backend command", status="ok", found=found, next=hint)
    keys = [api for api in APIS if os.environ.get(f"{api.upper()}_API_KEY")]
    lacks = ["the extra models"] if find_spec("pydantic_ai") is None else []
    lacks += [] if keys else ["a key"]
    if lacks:
        hint = "see above; then use -b model --set backend.model=NAME"
        yield CheckResult(check="backend model", status="note", found=f"lacks {' and '.join(lacks)}", next=hint)
    else:
        model = {"anthropic": "sonnet"}.get(keys[0], f"{keys[0]}/NAME")
        yield CheckResult(check="backend model", status="ok", found=f"-b model --set backend.model={model}")
    yield CheckResult(check="backend human", status="ok", found="-b human asks you")
    yield CheckResult(check="backend scripted", status="ok", found="-b scripted simulates answers, for trials")
    for one in probes():
        status = "ok" if one.usable else "note"
        yield CheckResult(check=f"backend {one.kind}", status=status, found=one.found, next=one.next)


def _without_secrets(url: str) -> str:
    """*url* without what it may say to its server."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


# -- where runs are kept ----------------------------------------------------------------------------------------------


def state(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether runs can be kept, and those of loops beside them: written, locked, and made safe quickly."""
    main, *of_loops = index.homes(context.state_dir)
    yield from _state(
        main, "state directory", "choose another: --state-dir DIR", _locks, _sync, lambda _: _doorbell(main)
    )
    for home in of_loops:
        yield from _state(home, "state of loops", "choose another: --state-dir DIR")


def _state(home: Path, check: str, hint: str, *trials: Callable[[Path], CheckResult]) -> Iterator[CheckResult]:
    """Whether *home*, or the nearest folder above it that exists, can be written; then *trials* in a folder there."""
    where = home.absolute()
    while not where.exists():
        where = where.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".coterie-doctor-", dir=where) as made:
            yield CheckResult(check=check, status="ok", found=f"{home} can be written")
            yield from (trial(Path(made)) for trial in trials)
    except OSError as error:
        found = f"{home} cannot be written: {error.strerror or error}"
        yield CheckResult(check=check, status="fail", found=found, next=hint)


def _locks(folder: Path) -> CheckResult:
    try:
        RunLock("doctor", folder / "lock").release()
    except CoterieError as error:
        hint = "keep the state directory on a local disk: --state-dir DIR"
        return CheckResult(check="locks", status="fail", found=str(error), next=hint)
    return CheckResult(check="locks", status="ok", found="a run has one owner at a time")


def _sync(folder: Path) -> CheckResult:
    times = []
    with (folder / "journal").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"x" * 200)
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    median = statistics.median(times)
    found = f"{median * 1000:.1f} ms until a record is durable"
    if median <= SLOW_SYNC:
        return CheckResult(check="disk", status="ok", found=found)
    hint = "every turn waits for this twice; a local disk is quicker: --state-dir DIR"
    return CheckResult(check="disk", status="warn", found=found, next=hint)


def _doorbell(state_dir: Path) -> CheckResult:
    path = socket_path(state_dir / "runs" / "doctor")
    if len(os.fsencode(path)) <= SOCKET_PATH_MOST:
        return CheckResult(check="doorbell", status="ok", found=f"live runs receive messages at once, in {path.parent}")
    found = f"the path of its socket is longer than {SOCKET_PATH_MOST} bytes: {path}"
    hint = "live runs read messages within seconds; for immediate delivery, set XDG_RUNTIME_DIR to a short path"
    return CheckResult(check="doorbell", status="warn", found=found, next=hint)


# -- the runs ---------------------------------------------------------------------------------------------------------


def known_runs(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the list of this user's runs can be read, and whether its entries lead somewhere."""
    entries, gone, torn = index.health()
    found = f"{plural(entries, 'run')} in {index.path()}"
    if gone or torn:
        found += f"; {gone} of them are gone, {plural(torn, 'line')} cannot be read: they are left out"
    yield CheckResult(check="list of runs", status="ok", found=found)


def runs(context: DoctorContext) -> Iterator[CheckResult]:
    """The status of runs that have not ended, and whether every journal here begins as it must."""
    ended, unreadable = 0, 0
    open_runs = []
    for entry in index.entries(context.state_dir):
        here, run = run_in(Path(entry.folder))
        state = here.status(run)
        if (problem := _unreadable(here, run)) is not None:
            unreadable += 1
            yield problem
        elif state in ENDS:
            ended += 1
        else:
            open_runs.append((entry, state))
    rest = f", {unreadable} cannot be read" if unreadable else ""
    yield CheckResult(check="runs", status="ok", found=f"{ended} ended, {len(open_runs)} did not yet{rest}")
    for entry, state in open_runs[-SHOWN:]:
        yield CheckResult(check=f"run {entry.run}", status="note", found=state, next=_go_on(entry.run, state))
    for left in sorted((context.state_dir / PARTS).glob("*")):
        hint = f"remove {left}"
        yield CheckResult(
            check="forks", status="note", found=f"{left.name} is incomplete: its creation was interrupted", next=hint
        )


def _unreadable(runs: Runs, run: str) -> CheckResult | None:
    try:
        runs.first(run)
    except CoterieError as error:
        return CheckResult(check=f"run {run}", status="warn", found=str(error), next=f"look at {runs.folder(run)}")
    return None


def _go_on(run: str, state: str) -> str:
    match state:
        case "running":
            return f"coterie inspect {run}"
        case "stopped: waiting":
            return f"coterie control respond {run} TEXT, then coterie resume {run}"
        case _:
            return f"coterie resume {run}"


# -- the files --------------------------------------------------------------------------------------------------------


def files(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the teams in the folder are valid, and whether their backends are configured."""
    kinds = ("*.at", "*.pattern.yaml", *SYSTEM_FILES)
    found = sorted(path for kind in kinds for path in context.folder.glob(kind) if path.is_file())
    for path in found[:SHOWN]:
        yield from _file(path)
    if len(found) > SHOWN:
        rest = f"{len(found) - SHOWN} more files"
        yield CheckResult(check="files", status="note", found=rest, next="coterie topology validate FILE …")


def _file(path: Path) -> Iterator[CheckResult]:
    plan, diagnostics = planning.examine(formats.read(path))
    severities = [one.severity for one in diagnostics]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    if errors or warnings:
        found = ", ".join(plural(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n)
        hint = f"coterie topology validate {path}"
        yield CheckResult(check=str(path), status="warn" if errors else "note", found=found, next=hint)
    else:
        yield CheckResult(check=str(path), status="ok", found="valid")
    if plan is not None:
        yield from _thinkers(path, plan)
        for line in absent_programs(plan):
            yield CheckResult(check=str(path), status="warn", found=line, next="install it, or write its path")


def _thinkers(path: Path, plan: Plan) -> Iterator[CheckResult]:
    from coterie.backends.models.needs import missing

    models = [(name, agent) for name, agent in _agents(plan, "") if agent.backend == "model"]
    for lack in missing(models, os.environ, offline="COTERIE_CASSETTE" in os.environ) if models else ():
        yield CheckResult(check=str(path), status="warn", found=lack.message, next=lack.hint)


def _agents(plan: Plan, path: str) -> Iterator[tuple[str, AgentPlan]]:
    for name, agent in plan.agents.items():
        if agent.child is None:
            yield path + name, agent
        else:
            yield from _agents(agent.child, f"{path}{name}/")


CHECKS: tuple[Check, ...] = (python, installed, git, providers, backends, sandboxes, state, known_runs, runs, files)
