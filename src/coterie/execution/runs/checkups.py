"""The checks of `coterie doctor`: machine, installation, backends, state directory, runs, files of a folder.

Each check is a generator of results over a `DoctorContext`, listed in `CHECKS`. Checks change nothing, except that they
create and remove a trial folder in the state directory (or beside it). Values of secrets are never shown.
"""

import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from coterie.agents.backends.coding.probes import claude, probes
from coterie.agents.backends.needs import absent_programs
from coterie.agents.backends.processes import finds_hidden
from coterie.agents.backends.sandbox import choice
from coterie.base import files as private
from coterie.base.diagnostics import Severity
from coterie.base.waits import waiting
from coterie.errors import CoterieError, JournalFailed
from coterie.execution.runs import index
from coterie.execution.runs.backend_setup import agents_of
from coterie.execution.runs.ended import EndedRuns
from coterie.execution.runs.fork import PARTS
from coterie.execution.runs.messages.doorbell import SOCKET_PATH_MOST, socket_path
from coterie.execution.runs.repository import Runs, run_in
from coterie.history.journal.lines import sync_data
from coterie.history.journal.lock import RunLock
from coterie.history.journal.status import ENDS
from coterie.history.views.words import plural
from coterie.team import formats, planning
from coterie.team.formats.files import SYSTEM_FILES
from coterie.team.options.backends import CODING
from coterie.team.options.extras import EXTRAS
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.providers import APIS

OLDEST_PYTHON = (3, 11)
SLOW_SYNC = 0.02
"""The longest time of a sync, in seconds, that does not slow down every turn."""
SYNCS = 7
SHOWN = 10
"""How many runs and files are listed one by one; the rest are counted."""


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a check.

    Attributes:
        status: `ok`; `note`: worth knowing; `warn`: something will not work well; `fail`: something does not work.
        next: What the user should do.
    """

    check: str
    status: str
    found: str
    next: str = ""


class DoctorContext(Struct, frozen=True):
    """Where `doctor` was called, and by which version of Coterie."""

    folder: Path
    state_dir: Path
    version: str


Check = Callable[[DoctorContext], Iterator[CheckResult]]


def examine(context: DoctorContext, checks: Sequence[Check]) -> list[CheckResult]:
    """Run *checks* and return all their results, in order."""
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
    """The version of Coterie, and the installed extras."""
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


_GIT_LACKS = (
    (
        (2, 30),
        "`fetch --stdin`",
        "no run can work in a separate work tree, and agents in yours use your repository itself",
    ),
    ((2, 38), "`merge-tree --write-tree`", "the work of a run stays on its branch, to be merged by hand"),
)


def git(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether git is installed, for agents that work on repositories."""
    program = shutil.which("git")
    if program is None:
        hint = "install it if agents work on repositories"
        yield CheckResult(check="git", status="note", found="not on the PATH", next=hint)
        return
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    found = f"{(version := said.strip().removeprefix('git version '))}, {program}"
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    found_lacks = (f"this one lacks {what}, so {hint}" for least, what, hint in _GIT_LACKS if number < least)
    lacks = next((f"install 2.38 or newer: {one}" for one in found_lacks), "")
    yield CheckResult(check="git", status="note" if lacks else "ok", found=found, next=lacks)


def providers(context: DoctorContext) -> Iterator[CheckResult]:
    """The names of the keys and addresses of model providers in the environment, never the keys."""
    for api in APIS:
        key, url = f"{api.upper()}_API_KEY", f"{api.upper()}_BASE_URL"
        address = f", at {_without_secrets(os.environ[url])}" if os.environ.get(url) else ""
        if os.environ.get(key):
            yield CheckResult(check=key, status="ok", found=f"is set{address}; no call has tried it")
        else:
            hint = f"export {key}=…, to use models of {api}"
            yield CheckResult(check=key, status="note", found=f"is not set{address}", next=hint)


def sandboxes(context: DoctorContext) -> Iterator[CheckResult]:
    """The sandboxes that work here, after a trial of each."""
    for one in choice.IMPLEMENTATIONS:
        why = choice.probe(one.NAME)
        yield CheckResult(check=f"sandbox {one.NAME}", status="note" if why else "ok", found=why or "works")
    if choice.absence():
        hint = f"{choice.remedy()}; agents with `sandbox: required` are refused until one works"
        found = "none works: coding agents can read and write whatever you can"
        yield CheckResult(check="sandbox", status="warn", found=found, next=hint)


def backends(context: DoctorContext) -> Iterator[CheckResult]:
    """The backends that a loop or a preset can use now, with their logins."""
    found, hint = "-b PROGRAM runs any program; `claude` is not on the PATH", "install Claude Code to use -b command"
    status = "ok"
    if program := shutil.which("claude"):
        login = claude("command", CODING["claude-sdk"], "")
        found, hint, status = f"-b command runs {program}: {login.found}", login.next, "ok" if login.usable else "warn"
    yield CheckResult(check="backend command", status=status, found=found, next=hint)
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
    """*url* without credentials and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


# -- where runs are kept ----------------------------------------------------------------------------------------------


def processes(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether all processes of an attempt end with it."""
    if finds_hidden():
        yield CheckResult(check="processes", status="ok", found="all that an attempt started ends with it")
    else:
        found = "without a subreaper here, a process that removes its marks and leaves its parent outlives its attempt"
        hint = (
            "run agents in a sandbox of bubblewrap, which ends all of it"
            if sys.platform == "linux"
            else choice.remedy()
        )
        yield CheckResult(check="processes", status="note", found=found, next=hint)


def home(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the user has a home, in which the list of runs and the settings of the user are."""
    found = private.user_home()
    if found != private.NO_HOME:
        yield CheckResult(check="home", status="ok", found=str(found))
        return
    what = "HOME is not set and the user is in no user database: no list of runs, no settings of the user"
    yield CheckResult(check="home", status="warn", found=what, next="export HOME=DIR")


def state(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the state directories of runs and of loops can be written, locked and synced quickly."""
    main, *of_loops = index.homes(context.state_dir)
    yield from _state(
        main, "state directory", "choose another: --state-dir DIR", _locks, _links, _sync, partial(_doorbell, main)
    )
    for home in of_loops:
        yield from _state(home, "state of loops", "choose another: --state-dir DIR")


def _state(home: Path, check: str, hint: str, *trials: Callable[[Path], CheckResult]) -> Iterator[CheckResult]:
    """Whether *home*, or the nearest existing folder above it, can be written; then run *trials* in a folder there."""
    where = home.absolute()
    while not where.exists():
        where = where.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".coterie-doctor-", dir=where) as made:
            private.make_folder(Path(made, "private"))
            yield CheckResult(check=check, status="ok", found=f"{home} can be written")
            yield from (trial(Path(made)) for trial in trials)
    except OSError as error:
        found = f"{home} cannot be written: {error.strerror or error}"
        yield CheckResult(check=check, status="fail", found=found, next=hint)


def _locks(folder: Path) -> CheckResult:
    try:
        RunLock("doctor", folder / "lock").release()
    except JournalFailed as error:
        return CheckResult(check="locks", status="fail", found=error.reason, next="choose another: --state-dir DIR")
    return CheckResult(check="locks", status="ok", found="a run has one owner at a time")


def _links(folder: Path) -> CheckResult:
    trial = folder / "file"
    trial.write_bytes(b"")
    lacks = []
    for kind, link in (("hard", os.link), ("symbolic", os.symlink)):
        try:
            link(trial, folder / kind)
        except OSError:
            lacks.append(f"{kind} links")
    if not lacks:
        return CheckResult(check="links", status="ok", found="files can have several names")
    found = f"its file system has no {' and no '.join(lacks)}: files are copied instead"
    hint = "git work trees need a file system with links: --state-dir DIR"
    return CheckResult(check="links", status="note", found=found, next=hint)


def _sync(folder: Path) -> CheckResult:
    times = []
    with (folder / "journal").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"x" * 200)
            sync_data(file.fileno())
            times.append(time.perf_counter() - began)
    median = statistics.median(times)
    found = f"{median * 1000:.1f} ms until a record is durable"
    if median <= SLOW_SYNC:
        return CheckResult(check="disk", status="ok", found=found)
    hint = "every turn waits for this twice; a local disk is quicker: --state-dir DIR"
    return CheckResult(check="disk", status="warn", found=found, next=hint)


def _doorbell(state_dir: Path, folder: Path) -> CheckResult:
    path = socket_path(state_dir / "runs" / "doctor")
    trial = path if path.parent.is_dir() else folder / path.name
    hint = "live runs read messages within seconds; for immediate delivery, set XDG_RUNTIME_DIR to a short path"
    if len(os.fsencode(path)) > SOCKET_PATH_MOST:
        found = f"the path of its socket is longer than {SOCKET_PATH_MOST} bytes: {path}"
        return CheckResult(check="doorbell", status="warn", found=found, next=hint)
    try:
        trial.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as bell:
            bell.bind(str(trial))
        trial.unlink()
    except OSError as error:
        found = f"no socket can be bound in {trial.parent}: {error.strerror or error}"
        return CheckResult(check="doorbell", status="warn", found=found, next=hint)
    return CheckResult(check="doorbell", status="ok", found=f"live runs receive messages at once, in {path.parent}")


# -- the runs ---------------------------------------------------------------------------------------------------------


def known_runs(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the index of this user's runs can be read, and whether its entries exist."""
    entries, gone, torn = index.health()
    found = f"{plural(entries, 'run')} in {index.path()}"
    if gone or torn:
        found += f"; {gone} of them are gone, {plural(torn, 'line')} cannot be read: they are left out"
    yield CheckResult(check="list of runs", status="ok", found=found)


def runs(context: DoctorContext) -> Iterator[CheckResult]:
    """The status of runs that have not ended, and whether every journal here begins correctly."""
    ended, unreadable = 0, 0
    open_runs = []
    with EndedRuns() as known:
        for entry in index.entries(context.state_dir):
            state = known.status(entry.folder).state
            here, run = run_in(Path(entry.folder))
            if not known.is_read(entry.folder) and (problem := _unreadable(here, run)) is not None:
                unreadable += 1
                yield problem
                continue
            if state in ENDS:
                ended += 1
            else:
                open_runs.append((entry, state))
            if not known.is_read(entry.folder):
                known.read(entry.folder)
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
    """Whether the teams in the folder are valid and have their backends configured."""
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
        for line in absent_programs(agents_of(plan)):
            yield CheckResult(check=str(path), status="warn", found=line, next="install it, or write its path")


def _thinkers(path: Path, plan: Plan) -> Iterator[CheckResult]:
    from coterie.agents.backends.models.needs import missing

    models = [(name, agent) for name, agent in _agents(plan, "") if agent.backend == "model"]
    for lack in missing(models, os.environ, offline="COTERIE_CASSETTE" in os.environ) if models else ():
        yield CheckResult(check=str(path), status="warn", found=lack.message, next=lack.hint)


def _agents(plan: Plan, path: str) -> Iterator[tuple[str, AgentPlan]]:
    for name, agent in plan.agents.items():
        if agent.child is None:
            yield path + name, agent
        else:
            yield from _agents(agent.child, f"{path}{name}/")


CHECKS: tuple[Check, ...] = (
    python,
    installed,
    git,
    providers,
    backends,
    sandboxes,
    processes,
    home,
    state,
    known_runs,
    runs,
    files,
)
