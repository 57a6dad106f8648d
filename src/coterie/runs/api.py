"""The friendly functions: load a team, run it, resume a run, fork one."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, overload

from coterie import formats, planning
from coterie.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.formats.source import Source
from coterie.journal.records import Record
from coterie.kernel.owner import Approver
from coterie.kinds import Observe
from coterie.planning.changes import change, word
from coterie.planning.plan import NO_LIMIT, Limits, Plan
from coterie.runs import fork as forking
from coterie.runs import launch
from coterie.runs.backend_setup import AskHuman
from coterie.runs.outcome import Outcome, R, RunResult, typed
from coterie.runs.python_hints import errors_for_python
from coterie.runs.repository import STATE_DIR, find
from coterie.runs.started import StartedRun
from coterie.topology.conditions import Scalar
from coterie.topology.model import Topology
from coterie.topology.typed.flow import TypedFlow
from coterie.topology.typed.values import as_outputs, fields_of

T = TypeVar("T")
_LOG = logging.getLogger("coterie")


def load(team: str | Path, params: Mapping[str, Scalar] | None = None) -> Topology:
    """Read a team from a file, with all that belongs to it, or from a text; see `read`.

    Its warnings are those of `read`.

    Raises:
        TopologyError: If it is wrong; it carries everything that was found.
    """
    return _source(team, params).valid()


def read(team: str | Path, params: Mapping[str, Scalar] | None = None, *, backend: str | None = None) -> Source:
    """Read a team as `coterie topology validate` does: `Source.diagnostics` are all errors and warnings.

    Nothing is raised for a wrong team: `Source.has_errors` says whether there are errors.

    Args:
        team: The path of a file or of a loop's folder, or a text: a `str` with a line break or a brace is the content
            of an `.at` file, or of a YAML file unless it begins with `topology` or `fragment`.
        params: Values for the parameters that it declares.
        backend: The backend of agents that configure none.
    """
    source = _source(team, params)
    return replace(source, diagnostics=planning.examine(source, backend=backend)[1])


_AT = re.compile(r"(?:\s|#[^\n]*\n)*(?:topology|fragment|library)\b")


def _source(team: str | Path, params: Mapping[str, Scalar] | None) -> Source:
    if not isinstance(team, str | Path):
        raise UsageError(f"a team is read from the path of its file, or from a text, not from {type(team).__name__}")
    if isinstance(team, str) and ("\n" in team or "{" in team):
        return formats.read_text(team, "" if _AT.match(team) else "text.yaml", None, params)
    return formats.read(Path(team), params)


def plan(topology: Topology, *, backend: str | None = None) -> Plan:
    """Resolve every default and precedence of *topology*; *backend* is that of agents that configure none.

    Raises:
        TopologyError: If it cannot be run.
    """
    if not isinstance(topology, Topology):
        raise UsageError(f"plan() takes a Topology, not {type(topology).__name__}; coterie.load(path) reads one")
    with errors_for_python(built=_is_built(topology)):
        return planning.plan_or_raise(topology, backend=backend)


class RunOptions(TypedDict, total=False):
    """What `run`, `start`, `resume` and `fork` take besides.

    Keys:
        limits: Limits for the run and its child runs; for `resume`, `max_turns` and `max_cost` are as before where they
            are None, and -1 lifts one.
        park: End, with `waiting`, when nothing runs but humans and timers; by default unless *human* answers.
        observe: Called with a run's id and each record, in order, once it is durable.
        human: Asks a human; without it humans answer through the run's inbox.
        attendant: Answers what an attempt needs a person for, as permission to use a tool, with one of its `answers`;
            without it `coterie attention` does, or the policy of the agent at the deadline.
        state_dir: The directory of the runs, `.coterie` by default.
    """

    limits: Limits | None
    park: bool | None
    observe: Observe | None
    human: AskHuman | None
    attendant: Approver | None
    state_dir: str | Path


class StartOptions(RunOptions, total=False):
    """What `run` and `start` take besides.

    Keys:
        params: Values for the parameters that the team's file declares.
        backend: The backend of agents that configure none.
    """

    params: Mapping[str, Scalar] | None
    backend: str | None


@overload
async def run(  # type: ignore[overload-overlap]  # a typed flow is a topology, too, whose result has a type
    team: TypedFlow[T], given: object = "", **options: Unpack[StartOptions]
) -> Outcome[T]: ...
@overload
async def run(team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]) -> Outcome: ...
async def run(team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]) -> Outcome[Any]:
    """Run a team once; its journal lies under *state_dir*, so that it can be killed anywhere and resumed.

    Args:
        team: A topology, a plan, or the path of a team's file.
        given: The prompt, or named values, `prompt` among them: a mapping, or a dataclass, Struct or pydantic model.
        options: `params`, `backend`, `limits`, `park`, `observe`, `human`, `attendant`, `state_dir`; see `StartOptions`
            and `RunOptions`.

    Raises:
        TopologyError: If the team cannot be run.
        UsageError: If an argument has the wrong type or value, or parameters are given to what was read already.
        JournalFailed: If the journal could not be written.
        CancelledError: If it is cancelled: the run has stopped, durably, and `resume` carries it on.
    """
    return await launch.until_stopped(_run(team, given, options))


async def _run(team: Topology | Plan | str | Path, given: object, options: Mapping[str, Any]) -> Outcome[Any]:
    how = _checked("run", options, StartOptions)
    params, backend = how.pop("params", None), how.pop("backend", None)
    if params and not isinstance(team, str | Path):
        raise UsageError("parameters are given where a team's file is read: coterie.load(path, params)")
    if not isinstance(team, Topology | Plan | str | Path):
        raise UsageError(f"run() takes a Topology, a Plan or the path of a file, not {type(team).__name__}")
    with errors_for_python(built=isinstance(team, Topology) and _is_built(team)):
        topology = load(team, params) if isinstance(team, str | Path) else team
        made = topology if isinstance(topology, Plan) else plan(topology, backend=backend)
        outcome = await launch.start(made, {"prompt": given} if isinstance(given, str) else _plain(given), **how)
    return _typed(outcome, team)


@overload
def start(  # type: ignore[overload-overlap]  # as for `run`
    team: TypedFlow[T], given: object = "", **options: Unpack[StartOptions]
) -> StartedRun[T]: ...
@overload
def start(
    team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]
) -> StartedRun[RunResult]: ...
def start(team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]) -> StartedRun[Any]:
    """Run a team in a new task; see `run` for the arguments, and `StartedRun` for what it returns.

    What `run` raises is raised where the result is awaited. A running event loop is needed.

    Raises:
        UsageError: If an option is unknown, or has the wrong type or value, or no event loop runs.
    """
    others = _checked("start", options, StartOptions).get("observe")

    def begin(notify: Observe) -> Awaitable[Outcome[Any]]:
        def observe(run: str, record: Record) -> None:
            notify(run, record)
            if others is not None:
                others(run, record)

        return _run(team, given, {**options, "observe": observe})

    return StartedRun(begin)


_NONE = type(None)
_KINDS: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "run": ((str,), "the id of a run"),
    "team": ((TypedFlow, _NONE), "a flow with a result"),
    "retry": ((bool, str), "True, or a turn"),
    "at": ((int, _NONE), "the number of a record"),
    "changes": ((Mapping, _NONE), 'words by name, {"writer.prompt": "…"}'),
    "params": ((Mapping, _NONE), "values by name"),
    "backend": ((str, _NONE), "the name of a backend"),
    "limits": ((Limits, _NONE), "coterie.Limits(…)"),
    "park": ((bool, _NONE), "True or False"),
    "state_dir": ((str, Path), "the path of a directory"),
    **dict.fromkeys(("observe", "human", "attendant"), ((Callable, _NONE), "a function")),
}
"""The types of each argument, and a word for them."""


def _checked(caller: str, options: Mapping[str, Any], known: type = RunOptions, **others: object) -> dict[str, Any]:
    """The *options* of *caller* as `launch` takes them; *others* are arguments of its own.

    Raises:
        UsageError: If one is unknown, or has the wrong type or value.
    """
    names = (*known.__annotations__, *others)
    for name, value in {**others, **options}.items():
        if name not in names:
            limit = f"write limits=coterie.Limits({name}={value!r})" if name in Limits.__struct_fields__ else ""
            hint = limit or did_you_mean(name, names) or f"it has {', '.join(names)}"
            raise UsageError(f"{caller}() has no argument {name!r}; {hint}")
        kinds, wanted = _KINDS[name]
        if not isinstance(value, kinds):
            raise UsageError(f"{name} is {wanted}, not {value!r}")
    _check_limits(options.get("limits"), lifts=caller == "resume")
    park = options.get("park")
    return {
        **options,
        "park": options.get("human") is None if park is None else park,
        "state_dir": Path(options.get("state_dir", STATE_DIR)),
    }


def _is_built(topology: Topology) -> bool:
    """Whether *topology* was built by functions: one that was read from a file has places in it."""
    return topology.loop is None and all(node.span is None for node in topology.nodes)


def _check_limits(limits: Limits | None, *, lifts: bool = False) -> None:
    """Check the types and values of *limits*, which no constructor does.

    Args:
        lifts: Whether one may lift that of an earlier owner.

    Raises:
        UsageError: If they are wrong.
    """
    if limits is None:
        return
    for name, least in (("max_turns", 0), ("max_cost", 0), ("max_parallel", 1), ("add_iterations", 0)):
        value, kinds = getattr(limits, name), (int, float) if name == "max_cost" else (int,)
        may_lack = value is None and name != "add_iterations"
        is_lifted = lifts and value == NO_LIMIT and name in ("max_turns", "max_cost")
        if not (may_lack or is_lifted) and (
            not isinstance(value, kinds) or isinstance(value, bool) or not value >= least
        ):
            what = "a number" if name == "max_cost" else "a whole number"
            raise UsageError(f"{name} must be {what} from {least}, not {value!r}")


def _plain(given: Any) -> dict[str, Any]:
    """*given* as its record will be read back."""
    if fields_of(type(given)) is not None:
        given = as_outputs(given)
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


def _typed(outcome: Outcome, team: object) -> Outcome[Any]:
    """*outcome* with its result as *team*, if it is a typed flow, says."""
    if isinstance(team, TypedFlow) and team.interface is not None:
        return typed(outcome, team.result, team.interface.exit)
    return outcome


def _log_place(run: str, place: Path) -> None:
    """Log that *run* is in *place*, another directory than the current one; `coterie resume` prints it."""
    _LOG.warning("run %s is in %s, another directory", run, place)


async def resume(
    run: str = "last",
    *,
    team: TypedFlow[R] | None = None,
    retry: bool | str = False,
    **options: Unpack[RunOptions],
) -> Outcome[R]:
    """Carry a run on from where its journal ends.

    Args:
        run: Its id, the beginning of one, or `last`.
        team: The typed flow that it runs, for the type of its result.
        retry: Reopen a run that has failed, and retry what failed it, or only this turn.
        options: As of `run`, without `params` and `backend`; see `RunOptions`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished: If it cannot be carried on.
        RetryRefused: If it did not fail, or nothing in it is to be retried.
        UsageError: If an argument has the wrong type or value.
    """
    how = _checked("resume", options, run=run, team=team, retry=retry)
    turn = retry if isinstance(retry, str) else ""
    with errors_for_python():
        runs, run = find(run, how.pop("state_dir"), _log_place)
        running = launch.resume(run, state_dir=runs.root, retry=turn if retry else None, **how)
        return _typed(await launch.until_stopped(running), team)


async def fork(
    run: str = "last",
    *,
    team: TypedFlow[R] | None = None,
    at: int | None = None,
    changes: Mapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> Outcome[R]:
    """Start a new run that shares the beginning of another one, and goes on from there.

        await coterie.fork("last", at=12, changes={"writer.prompt": "Be brief.", "model": "small"})

    Args:
        run: Its id, the beginning of one, or `last`; it stays as it is.
        team: The typed flow that it runs, for the type of its result.
        at: The last record to share; by default the last there is, of a failed run the one before the turn that failed
            it, and of a completed one the one before its end.
        changes: Other words from there on, by `AGENT.KEY`, or by `KEY` for every agent that thinks.
        options: As of `run`, without `params` and `backend`; see `RunOptions`.

    Raises:
        NoSuchRun: If there is no such run.
        UsageError: If it cannot be forked there, an argument has the wrong type or value, or a change means nothing.
        ReplayMismatch: If after the changes the shared records would have been decided otherwise.
    """
    how = _checked("fork", options, run=run, team=team, at=at, changes=changes)
    runs, run = find(run, how.pop("state_dir"), _log_place)
    words = [word(name, value) for name, value in (changes or {}).items()]
    made = forking.fork(run, state_dir=runs.root, at=at, change=lambda recorded: change(recorded, words))
    limits = how.pop("limits", None) or Limits()
    with errors_for_python():
        running = launch.resume(made.run, state_dir=runs.root, limits=limits.alone(), **how)
        return _typed(await launch.until_stopped(running), team)
