"""Probe coding agents for `coterie doctor`: version, login (see `logins`), and abilities.

Programs are started at the same time, each with a deadline; none of them calls a model.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from coterie.agents.backends.coding.logins import has_login, login_of
from coterie.agents.backends.sandbox.policy import caches_in
from coterie.base import files
from coterie.team.options.backends import CODING, BackendEntry, load, states_in
from coterie.team.planning.providers import APIS

DEADLINE = 1.5
"""Seconds for a program to answer."""
LINE_MOST = 60
"""How many characters of a version are shown."""
LOG_IN = "run `claude` and enter /login, or export ANTHROPIC_API_KEY=…"
_KEYS = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "pi": tuple(f"{api.upper()}_API_KEY" for api in APIS),
}
"""The variables that replace a login, by program."""

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "coterie", "version": "1"}},
}


class AgentProbe(Struct, frozen=True, kw_only=True):
    """The result for one backend of coding agents.

    Attributes:
        usable: Whether a run can use it, as far as this is known without calling a model.
        next: What the user should do.
        logged_in: The login state that the program reports; None if it does not.
    """

    kind: str
    usable: bool
    found: str
    next: str = ""
    logged_in: bool | None = None


def probes() -> list[AgentProbe]:
    """Examine each backend of coding agents, in the order of their table."""
    with ThreadPoolExecutor(len(CODING)) as pool:
        return list(pool.map(probe, CODING))


def probe(kind: str) -> AgentProbe:
    """Examine the backend *kind* of coding agents."""
    backend = CODING[kind]
    if not backend.is_installed:
        hint = f"pip install 'coterie[{backend.extra}]', to use -b {kind}"
        return AgentProbe(kind=kind, usable=False, found="lacks its library", next=hint)
    able = [name for name, value in asdict(backend.make().abilities).items() if value]
    found: AgentProbe = load(backend.probe)(kind, backend, f"; abilities: {', '.join(able)}")
    return found


def program(kind: str, backend: BackendEntry, can: str) -> AgentProbe:
    """Whether the program of *backend* is installed, its version, the signs of a login, and its abilities *can*."""
    found = _versioned(kind, backend)
    return _with_login(found, backend, can, None) if found.usable else found


def _with_login(found: AgentProbe, backend: BackendEntry, can: str, said: bool | None) -> AgentProbe:
    keys = _KEYS.get(backend.program, ())
    has = said if said is not None else has_login(backend.states, keys)
    hint = "" if has else LOG_IN if backend.program == "claude" else f"run `{backend.program}` and enter /login"
    text = f"{found.found}, {login_of(backend.states, keys, said)}{can}"
    return replace(found, usable=said is not False, found=text, next=hint, logged_in=said)


def _versioned(kind: str, backend: BackendEntry) -> AgentProbe:
    program = _program(backend.program, backend.library)
    if not program:
        found = f"`{backend.program}` is not on the PATH"
        return AgentProbe(kind=kind, usable=False, found=found, next=f"{backend.install}, to use -b {kind}")
    said = _output([program, "--version"], stderr=subprocess.STDOUT)  # pi writes it there
    version = next((line.strip()[:LINE_MOST] for line in said.splitlines() if any(map(str.isdigit, line))), "")
    if not version:
        found = f"{program} does not say its version within {DEADLINE:g} s"
        return AgentProbe(kind=kind, usable=False, found=found, next=f"call {program} --version, to see why")
    return AgentProbe(kind=kind, usable=True, found=version)


def claude(kind: str, backend: BackendEntry, can: str) -> AgentProbe:
    """As `program`; the program says whether the user is logged in."""
    found = _versioned(kind, backend)
    if not found.usable:
        return found
    login = _object(_output([_program(backend.program, backend.library), "auth", "status"])).get("loggedIn")
    return _with_login(found, backend, can, login if isinstance(login, bool) else None)


def acp(kind: str, backend: BackendEntry, can: str) -> AgentProbe:
    """The known facts about each ACP agent that is installed, or that `npx` runs, without a download."""
    answers = "; ".join(_acp_answers(backend)) or f"-b {kind}:NAME:COMMAND can be used"
    return AgentProbe(kind=kind, usable=True, found=answers + can)


def _program(name: str, library: str) -> str:
    """The program *name*: on the PATH, or included in *library*; empty if there is none."""
    if found := shutil.which(name):
        return found
    spec = find_spec(library) if library else None
    bundled = Path(spec.origin or "").parent / "_bundled" / name if spec is not None else Path(name)
    return str(bundled) if bundled.is_absolute() and bundled.is_file() else ""


def _acp_answers(backend: BackendEntry) -> Iterator[str]:
    for provider, known in backend.providers.items():
        command, args = known.command, known.args
        if not command or not (program := shutil.which(command)):
            continue
        if command == "npx":
            version = _npm_version(args[-1], Path(program))
            what = f"`{args[-1]}` {version}" if version else f"`npx` downloads `{args[-1]}` when it is first used"
            yield f"-b {provider}: {what}"
            continue
        said = _object(_output([command, *args], json.dumps(_INITIALIZE)).partition("\n")[0])
        answer = said.get("result") if isinstance(said.get("result"), dict) else None
        about = answer.get("agentInfo") or {} if answer else {}
        version = f" {about['version']}" if isinstance(about, dict) and about.get("version") else ""
        login = f", {login_of(states)}" if (states := [*states_in([command, *args])]) else ""
        yield f"-b {provider}: `{command}`{version} " + (f"answers{login}" if answer else "does not answer")


def _npm_version(package: str, npx: Path) -> str:
    """The version of *package* that *npx* finds in the project, among the global packages, or in a cache."""
    named = next((value for name, value in os.environ.items() if name.lower() == "npm_config_cache"), "")
    caches = (Path(named or files.user_home() / ".npm"), *caches_in(os.environ, files.user_home()).glob("*/npm"))
    here = Path.cwd()
    places = [
        *(folder / "node_modules" for folder in (here, *here.parents)),
        npx.parents[1] / "lib" / "node_modules",
    ]
    for cache in caches:
        with suppress(OSError):
            places += [each / "node_modules" for each in sorted((cache / "_npx").iterdir())]
    for place in places:
        with suppress(OSError, UnicodeDecodeError):
            found = _object((place / package / "package.json").read_text(encoding="utf-8")).get("version")
            if isinstance(found, str):
                return found[:LINE_MOST]
    return ""


def _output(argv: Sequence[str], said: str = "", *, stderr: int = subprocess.DEVNULL) -> str:
    """The standard output of *argv* until it ends, times out, or has answered the line *said* with a line."""
    try:
        process = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE if said else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError:
        return ""
    assert process.stdout is not None
    output, deadline = b"", time.monotonic() + DEADLINE
    with process, selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        with suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(f"{said}\n".encode())
        while not (said and b"\n" in output) and ready.select(max(deadline - time.monotonic(), 0.0)):
            if not (data := process.stdout.read(1 << 16)):
                break
            output += data
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    return output.decode("utf-8", "replace")


def _object(text: str) -> dict[str, Any]:
    """Parse *text* as a JSON object; empty if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
