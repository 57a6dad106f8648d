"""The friendly functions: load a team, run it, resume a run, fork one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie import formats, planning
from coterie.errors import TopologyError, UsageError
from coterie.planning.changes import change, word
from coterie.planning.plan import Limits, Plan
from coterie.runs import fork as forking
from coterie.runs import launch
from coterie.runs.backend_setup import AskHuman
from coterie.runs.kinds import Observe
from coterie.runs.outcome import Outcome
from coterie.runs.repository import STATE_DIR, find
from coterie.topology.conditions import Scalar
from coterie.topology.model import Topology


def load(path: str | Path, params: Mapping[str, Scalar] | None = None) -> Topology:
    """Read a team's file, with all that belongs to it.

    Args:
        params: Values for the parameters that it declares.

    Raises:
        TopologyError: If it is wrong; it carries everything that was found.
    """
    source = formats.read(Path(path), params)
    if source.topology is None or source.has_errors:
        raise TopologyError(source.diagnostics, source.text)
    return source.topology


def plan(topology: Topology, *, backend: str | None = None) -> Plan:
    """Resolve every default and precedence of *topology*; *backend* thinks where no agent says otherwise.

    Raises:
        TopologyError: If it cannot be run.
    """
    return planning.plan_or_raise(topology, backend=backend)


async def run(
    team: Topology | Plan | str | Path,
    given: str | Mapping[str, Any] = "",
    *,
    params: Mapping[str, Scalar] | None = None,
    backend: str | None = None,
    limits: Limits | None = None,
    park: bool = True,
    observe: Observe | None = None,
    human: AskHuman | None = None,
    state_dir: str | Path = STATE_DIR,
) -> Outcome:
    """Run a team once; its journal lies under *state_dir*, so that it can be killed anywhere and resumed.

    Args:
        team: A topology, a plan, or the path of a team's file.
        given: The prompt, or named values, `prompt` among them.
        params: Values for the parameters that the team's file declares.
        backend: The backend of agents that configure none.
        park: End, with `waiting`, when nothing runs but humans and timers.
        observe: Called with a run's id and each record, in order, once it is durable.
        human: Asks a human; without it humans answer through the run's inbox.

    Raises:
        TopologyError: If the team cannot be run.
        UsageError: If what is given is no plain data, or parameters are given to what was read already.
        JournalFailed: If the journal could not be written.
    """
    if params and not isinstance(team, str | Path):
        raise UsageError("parameters are given where a team's file is read: coterie.load(path, params)")
    topology = load(team, params) if isinstance(team, str | Path) else team
    return await launch.start(
        topology if isinstance(topology, Plan) else plan(topology, backend=backend),
        {"prompt": given} if isinstance(given, str) else _plain(given),
        state_dir=Path(state_dir),
        limits=limits,
        park=park,
        observe=observe,
        human=human,
    )


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """*given* as its record will be read back."""
    if not isinstance(given, Mapping):
        raise UsageError(f'the input of a team must be a text or named values, {{"prompt": …}}, not {given!r}')
    read: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise UsageError(f"the name of an input must be a text, not {name!r}")
        try:
            read[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the input {name!r} is not JSON data: {error}") from error
    return read


async def resume(
    run: str = "last",
    *,
    limits: Limits | None = None,
    park: bool = True,
    observe: Observe | None = None,
    human: AskHuman | None = None,
    state_dir: str | Path = STATE_DIR,
) -> Outcome:
    """Carry a run on from where its journal ends; see `run` for the arguments.

    Args:
        run: Its id, the beginning of one, or `last`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished: If it cannot be carried on.
    """
    runs, run = find(run, Path(state_dir))
    return await launch.resume(
        run,
        state_dir=runs.root,
        limits=limits,
        park=park,
        observe=observe,
        human=human,
    )


async def fork(
    run: str = "last",
    *,
    at: int | None = None,
    changes: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    park: bool = True,
    observe: Observe | None = None,
    human: AskHuman | None = None,
    state_dir: str | Path = STATE_DIR,
) -> Outcome:
    """Start a new run that shares the beginning of another one, and goes on from there; see `run` for the rest.

        await coterie.fork("last", at=12, changes={"writer.prompt": "Be brief.", "model": "small"})

    Args:
        run: Its id, the beginning of one, or `last`; it stays as it is.
        at: The last record to share; by default the last there is, before the end of a run that has ended.
        changes: Other words from there on, by `AGENT.KEY`, or by `KEY` for every agent that thinks.

    Raises:
        NoSuchRun: If there is no such run.
        UsageError: If it cannot be forked there, or a change means nothing.
        ReplayMismatch: If after the changes the shared records would have been decided otherwise.
    """
    runs, run = find(run, Path(state_dir))
    words = [word(name, value) for name, value in (changes or {}).items()]
    made = forking.fork(run, state_dir=runs.root, at=at, change=lambda recorded: change(recorded, words))
    return await launch.resume(made.run, state_dir=runs.root, limits=limits, park=park, observe=observe, human=human)
