"""The public functions of `coterie`: load and run a team, resume and fork a run."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, overload

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.actors.inputs import check_answers_kept, check_kept
from coterie.base.diagnostics import did_you_mean
from coterie.errors import CoterieError, NoSuchRun, UsageError
from coterie.execution.kernel.owner import Approver
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Observe
from coterie.execution.runs import fork as forking
from coterie.execution.runs import given_ids, index, launch, named_runs, run_ids
from coterie.execution.runs.backend_setup import AskHuman
from coterie.execution.runs.mutual_waits import wait_for
from coterie.execution.runs.outcome import Outcome, RunResult, typed
from coterie.execution.runs.python_hints import errors_for_python
from coterie.execution.runs.repository import STATE_DIR, Runs, find
from coterie.execution.runs.started import Listeners, Run, StartedRun, check_loop
from coterie.execution.runs.threads import Continues, continued, follow
from coterie.execution.runs.user_observer import UserObserver
from coterie.execution.runs.what_if import Answers
from coterie.history.journal.records import Record
from coterie.history.journal.rules import root_of
from coterie.team import formats, planning
from coterie.team.formats.source import Source
from coterie.team.planning.changes import change, word
from coterie.team.planning.plan import NO_LIMIT, Limits, Plan
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Topology
from coterie.team.topology.typed.flow import TypedFlow
from coterie.team.topology.typed.values import RESULT, as_outputs, attributes, fields_of

T = TypeVar("T")
_LOG = logging.getLogger("coterie")


def load(team: str | Path, params: Mapping[str, Scalar] | None = None) -> Topology:
    """Read a team from a file, with the files that it includes, or from a text; see `read`.

    Warnings are not reported; `read` returns them.

    Raises:
        TopologyError: If the team has errors; it has all diagnostics.
    """
    return _source(team, params).valid()


def read(team: str | Path, params: Mapping[str, Scalar] | None = None, *, backend: str | None = None) -> Source:
    """Read a team as `coterie topology validate` does: `Source.diagnostics` are all errors and warnings.

    Nothing is raised for an invalid team: `Source.has_errors` says whether there are errors.

    Args:
        team: The path of a file or of a loop's folder, or a text: a `str` with a line break or a brace is the content
            of an `.at` file, or of a YAML file unless it begins with `topology` or `fragment`.
        params: Values for the parameters that it declares.
        backend: The backend for agents that configure none.
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
    """Resolve every default and precedence of *topology*; agents that configure no backend get *backend*.

    Raises:
        TopologyError: If it cannot be run.
    """
    if not isinstance(topology, Topology):
        raise UsageError(f"plan() takes a Topology, not {type(topology).__name__}; coterie.load(path) reads one")
    with errors_for_python(built=_is_built(topology)):
        return planning.plan_or_raise(topology, backend=backend)


class RunOptions(TypedDict, total=False):
    """Further arguments of `run`, `start`, `resume` and `fork`.

    Keys:
        limits: Limits for the run and its child runs. For `resume`, a `max_turns` or `max_cost` of None keeps the
            earlier limit, and -1 lifts it.
        park: Stop, with the reason `waiting`, when the run waits only for humans and timers; the default unless *human*
            is given.
        observe: Called with a run's id and each record, in order, once it is durable. If it raises, it is not called
            again, and the run stops with the reason; `resume` continues it.
        human: Called to ask a human; without it humans answer through the run's inbox.
        attendant: Called when an attempt needs a person, for example for permission to use a tool; returns one of the
            request's `answers`. Without it the answer comes from `coterie attention`, or from the agent's policy at the
            deadline.
        state_dir: The directory of the runs; by default `.coterie`, or `.autoloop` where only loops have run.
    """

    limits: Limits | None
    park: bool | None
    observe: Observe | None
    human: AskHuman | None
    attendant: Approver | None
    state_dir: str | Path


class StartOptions(RunOptions, total=False):
    """Further arguments of `run` and `start`.

    Keys:
        id: The id of the run. The same id again, with the same plan and input, finds the run: one that is driven is
            joined, any other gives its outcome.
        params: Values for the parameters that the team's file declares.
        backend: The backend for agents that configure none.
        thread: The thread that the run continues, or begins. Agents with `thread: true` are shown what came before.
        after: The run of the thread's team to continue, if not the latest of the thread.
        wait: Wait while the thread's latest run has no end, instead of raising `ThreadBusy`.
    """

    id: str
    params: Mapping[str, Scalar] | None
    backend: str | None
    thread: str
    after: str
    wait: bool


@overload
async def run(  # type: ignore[overload-overlap]  # a typed flow is a topology, too, whose result has a type
    team: TypedFlow[T], given: object = "", **options: Unpack[StartOptions]
) -> Outcome[T]: ...
@overload
async def run(team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]) -> Outcome: ...
async def run(team: Topology | Plan | str | Path, given: object = "", **options: Unpack[StartOptions]) -> Outcome[Any]:
    """Run a team once. Its journal is kept under *state_dir*, so it can be killed at any time and resumed.

    Args:
        team: A topology, a plan, or the path of a team's file.
        given: The prompt, or named values, `prompt` among them: a mapping, or a dataclass, Struct or pydantic model.
        options: `id`, `params`, `backend`, `thread`, `after`, `wait`, `limits`, `park`, `observe`, `human`,
            `attendant`, `state_dir`; see `StartOptions` and `RunOptions`.

    Raises:
        TopologyError: If the team cannot be run.
        UsageError: If an argument has the wrong type or value, or parameters are given for a team that is already
            loaded.
        ThreadBusy: If the latest run of the *thread* has no end.
        RunExists: If there is a run with the *id* that has another plan or input.
        JournalFailed: If the journal could not be written.
        CancelledError: If the task is cancelled: the run has stopped durably, and `resume` continues it.
    """
    asked = _Asked.of("run", team, given, options)
    with wait_for(asked.id, is_new=asked.is_new):
        return await launch.until_stopped(_run(asked))


class _Asked(Struct, frozen=True):
    """A run that a caller asks for: its plan and input, its id, whether this call claimed it, and how to drive it."""

    team: object
    plan: Plan
    given: dict[str, Any]
    id: str
    is_new: bool
    continues: Continues | None
    how: dict[str, Any]

    @classmethod
    def of(cls, caller: str, team: Any, given: object, options: Mapping[str, Any]) -> "_Asked":
        """Check everything that can be checked before the run, and claim its id."""
        how = _checked(caller, options, StartOptions)
        params, backend, id = how.pop("params", None), how.pop("backend", None), how.pop("id", "")
        continues = continued(how.pop("thread", ""), how.pop("after", ""), wait=how.pop("wait", False))
        if params and not isinstance(team, str | Path):
            raise UsageError("parameters are given where a team's file is read: coterie.load(path, params)")
        if not isinstance(team, Topology | Plan | str | Path):
            raise UsageError(f"run() takes a Topology, a Plan or the path of a file, not {type(team).__name__}")
        with errors_for_python(built=isinstance(team, Topology) and _is_built(team)):
            topology = load(team, params) if isinstance(team, str | Path) else team
            made = topology if isinstance(topology, Plan) else plan(topology, backend=backend)
            named = _input(made, given)
        if id:
            how["state_dir"] = index.place_of(id, how["state_dir"]) or how["state_dir"]
            return cls(team, made, named, id, given_ids.claim(id, how["state_dir"]), continues, how)
        return cls(team, made, named, run_ids.choose_id(made, how["state_dir"]), True, continues, how)


async def _run(asked: _Asked) -> Outcome[Any]:
    runs, how = Runs(asked.how["state_dir"]), asked.how

    def begin() -> Awaitable[Outcome]:
        start = partial(launch.start, asked.plan, asked.given, run_id=asked.id)
        if asked.continues is None:
            return start(**how)
        others = {name: value for name, value in how.items() if name != "observe"}
        beginning = partial(start, **others)
        return follow(runs, asked.id, asked.plan, asked.continues, beginning, observe=how["observe"], tell=_LOG.warning)

    with errors_for_python(built=isinstance(asked.team, Topology) and _is_built(asked.team)):
        outcome = await named_runs.begun(
            runs, asked.id, asked.plan, asked.given, begin, is_new=asked.is_new, observe=how.get("observe")
        )
    return _typed(outcome, asked.team)


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

    Exceptions of `run` are raised where the result is awaited. A running event loop is required.

    Raises:
        UsageError: If an option is unknown, or has the wrong type or value, or no event loop runs.
    """
    check_loop()
    options.setdefault("state_dir", index.usual_home())
    _checked("start", options, StartOptions)  # wrong ones are refused at the call, what is wrong with the team later
    try:
        asked = _Asked.of("start", team, given, options)
    except CoterieError as error:
        refused = error

        async def refuse(listeners: Listeners) -> Outcome[Any]:
            raise refused

        return StartedRun("", Path(options["state_dir"]), refuse, fork)

    def begin(listeners: Listeners) -> Awaitable[Outcome[Any]]:
        own = asked.how["observe"]

        def observe(run: str, record: Record) -> None:
            listeners.observe(run, record)
            if own is not None:
                own(run, record)

        def attach(shell: Shell) -> None:
            listeners.attach(shell)
            if own is not None:
                own.attach(shell)

        return _run(replace(asked, how={**asked.how, "observe": observe, "attach": attach}))

    return StartedRun(asked.id, asked.how["state_dir"], begin, fork)


def get(run: str = "last", *, state_dir: str | Path = STATE_DIR) -> Run[RunResult]:
    """Find a run: its id, the beginning of its id, or `last`.

    Raises:
        NoSuchRun: If there is none.
    """
    runs, run = _find(run, Path(state_dir))
    return Run(run, runs, fork)


def runs(*, state_dir: str | Path = STATE_DIR) -> list[Run[RunResult]]:
    """List the runs of *state_dir*, newest first."""
    return [Run(entry.run, Runs(Path(state_dir)), fork) for entry in index.newest(Path(state_dir))]


_NONE = type(None)
_KINDS: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "run": ((str,), "the id of a run"),
    "team": ((Topology, _NONE), "the flow that it runs"),
    "id": ((str,), "the id of the run"),
    "retry": ((bool, str), "True, or a turn"),
    "at": ((int, _NONE), "the number of a record"),
    "outputs": ((Mapping, _NONE), 'answers by turn, {"critic#2": {"verdict": "approve"}}'),
    "prompts": ((Mapping, _NONE), "prompts by agent"),
    "models": ((Mapping, _NONE), "models by agent"),
    "changes": ((Mapping, _NONE), 'words by name, {"writer.prompt": "…"}'),
    "params": ((Mapping, _NONE), "values by name"),
    "backend": ((str, _NONE), "the name of a backend"),
    "limits": ((Limits, _NONE), "coterie.Limits(…)"),
    "park": ((bool, _NONE), "True or False"),
    "state_dir": ((str, Path), "the path of a directory"),
    "thread": ((str,), "the name of a thread"),
    "after": ((str,), "the id of a run"),
    "wait": ((bool,), "True or False"),
    **dict.fromkeys(("observe", "human", "attendant"), ((Callable, _NONE), "a function")),
}
"""The types of each argument, and how messages describe them."""


def _checked(caller: str, options: Mapping[str, Any], known: type = RunOptions, **others: object) -> dict[str, Any]:
    """Check the *options* of *caller* and return them as arguments of `launch`; *others* are its further arguments.

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
            raise UsageError(f"{name} is {wanted}, not {_short(value)}")
    _check_limits(options.get("limits"), lifts=caller == "resume")
    park, observe = options.get("park"), options.get("observe")
    observer = UserObserver(observe) if observe is not None else None
    return {
        **options,
        "observe": observer,
        "attach": observer.attach if observer is not None else None,
        "park": options.get("human") is None if park is None else park,
        "state_dir": Path(options.get("state_dir") or index.usual_home()),
    }


def _short(value: object) -> str:
    """*value* in a message: a team by its type, since its `repr` fills pages."""
    return f"a {type(value).__name__}" if isinstance(value, Struct) else f"{value!r:.60}"


def _is_built(topology: Topology) -> bool:
    """Whether *topology* was built by functions; one that was read from a file has positions in it."""
    return topology.loop is None and all(node.span is None for node in topology.nodes)


def _check_limits(limits: Limits | None, *, lifts: bool = False) -> None:
    """Check the types and values of *limits*, which the constructor does not.

    Args:
        lifts: Whether -1 may lift a limit of an earlier owner.

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


def _input(plan: Plan, given: Any) -> dict[str, Any]:
    """The plain values of the input *given* to a run of *plan*.

    Raises:
        UsageError: If it is not JSON data, or a function would get another value.
    """
    if isinstance(given, str):
        return {"prompt": given}
    plain = _plain(given)
    check_kept(plan, given if isinstance(given, Mapping) else attributes(given), plain)
    return plain


def _plain(given: Any) -> dict[str, Any]:
    """Convert *given* to the plain values that its record contains.

    Raises:
        UsageError: If it is not JSON data, or a journal does not keep it.
    """
    try:
        named = as_outputs(given) if fields_of(type(given)) is not None else given
    except TypeError as error:
        raise UsageError(f"the input is not JSON data: {error}") from error
    if not isinstance(named, Mapping):
        raise UsageError(f'the input of a team must be a text or named values, {{"prompt": …}}, not {given!r}')
    read: dict[str, Any] = {}
    for name, value in named.items():
        if not isinstance(name, str):
            raise UsageError(f"the name of an input must be a text, not {name!r}")
        try:
            read[name] = as_outputs(value, whole=True)[RESULT]
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the input {name!r} is not JSON data: {error}") from error
    return read


def _typed(outcome: Outcome, team: object) -> Outcome[Any]:
    """Convert the result of *outcome* to the type of *team*, if that is a typed flow."""
    if isinstance(team, TypedFlow) and team.answered_by:
        return typed(outcome, team.result, team.answered_by)
    return outcome


def _find(name: str, state_dir: Path) -> tuple[Runs, str]:
    """Find the run *name*; of another directory, whose name is logged, only one whose id no caller gave.

    An id that a caller gave is found only whole: `order-4` is not the beginning of `order-42`.

    Raises:
        NoSuchRun: If there is none.
    """
    elsewhere = list[Path]()
    runs, run = find(name, state_dir, lambda run, place: elsewhere.append(place))
    is_whole = name == "last" or f"{run}/".startswith(f"{name}/")
    if (elsewhere or not is_whole) and given_ids.is_given(runs.folder(root_of(run))):
        raise NoSuchRun(name)
    for place in elsewhere:
        _LOG.warning("run %s is in %s, another directory", run, place)
    return runs, run


@overload
async def resume(  # type: ignore[overload-overlap]  # as for `run`
    run: str = "last", *, team: TypedFlow[T], retry: bool | str = False, **options: Unpack[RunOptions]
) -> Outcome[T]: ...
@overload
async def resume(
    run: str = "last", *, team: Topology | None = None, retry: bool | str = False, **options: Unpack[RunOptions]
) -> Outcome: ...
async def resume(
    run: str = "last", *, team: Topology | None = None, retry: bool | str = False, **options: Unpack[RunOptions]
) -> Outcome[Any]:
    """Continue a run from the end of its journal.

    Args:
        run: Its id, the beginning of its id, or `last`.
        team: The flow that it runs, for the type of its result, if it has one.
        retry: Reopen a failed run and retry the turns that failed it, or only the given turn.
        options: As for `run`, without `params` and `backend`; see `RunOptions`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished: If it cannot be continued.
        RetryRefused: If it has not failed, or nothing in it can be retried.
        UsageError: If an argument has the wrong type or value.
    """
    how = _checked("resume", options, run=run, team=team, retry=retry)
    turn = retry if isinstance(retry, str) else ""
    with errors_for_python():
        runs, run = _find(run, how.pop("state_dir"))
        with wait_for(run):
            running = launch.resume(run, state_dir=runs.root, retry=turn if retry else None, **how)
            return _typed(await launch.until_stopped(running), team)


@overload
async def fork(  # type: ignore[overload-overlap]  # as for `run`
    run: str = "last",
    *,
    team: TypedFlow[T],
    at: int | None = None,
    input: str | Mapping[str, Any] | None = None,
    outputs: Answers | None = None,
    prompts: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> Outcome[T]: ...
@overload
async def fork(
    run: str = "last",
    *,
    team: Topology | None = None,
    at: int | None = None,
    input: str | Mapping[str, Any] | None = None,
    outputs: Answers | None = None,
    prompts: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> Outcome: ...
async def fork(
    run: str = "last",
    *,
    team: Topology | None = None,
    at: int | None = None,
    input: str | Mapping[str, Any] | None = None,
    outputs: Answers | None = None,
    prompts: Mapping[str, str] | None = None,
    models: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    **options: Unpack[RunOptions],
) -> Outcome[Any]:
    """Start a new run that shares the beginning of another run and continues from there.

        await coterie.fork("last", at=12, prompts={"writer": "Be brief."}, changes={"model": "small"})
        await coterie.fork("last", outputs={"critic#2": {"verdict": "approve"}})

    Args:
        run: The original: its id, the beginning of its id, or `last`. It is not changed.
        team: The flow that it runs, for the type of its result, if it has one.
        at: The last record to share. The default is the last record; for a failed run the last one before the turn that
            failed it, for a completed run the last one before its end; with *outputs* the latest of these answers, with
            *input* the last one before the first turn.
        input: Another prompt, or other named values; those that are not named stay.
        outputs: Other answers, by turn or by agent for its latest turn: values of some of its outputs, or a text.
        prompts: Other prompts by agent; *models* likewise.
        changes: New settings from there on, by `AGENT.KEY`, or by `KEY` for every agent with a model.
        options: As for `run`, without `params` and `backend`; see `RunOptions`.

    Raises:
        NoSuchRun: If there is no such run.
        UsageError: If it cannot be forked there, an argument has the wrong type or value, or a change has no effect.
        ReplayMismatch: If the shared records do not agree with the changed plan.
    """
    how = _checked(
        "fork", options, run=run, team=team, at=at, outputs=outputs, prompts=prompts, models=models, changes=changes
    )
    runs, run = _find(run, how.pop("state_dir"))
    words = [word(name, value) for name, value in (changes or {}).items()]
    words += [word(f"{agent}.prompt", text) for agent, text in (prompts or {}).items()]
    words += [word(f"{agent}.model", model) for agent, model in (models or {}).items()]
    given = None if input is None else _input(runs.plan(run), input)
    answers = {turn: one if isinstance(one, str) else _plain(one) for turn, one in (outputs or {}).items()}
    if outputs:
        named = {turn: one if isinstance(one, str | Mapping) else attributes(one) for turn, one in outputs.items()}
        check_answers_kept(runs.plan(run), named, answers)
    limits = how.pop("limits", None) or Limits()
    with errors_for_python():
        made = forking.fork(
            run, state_dir=runs.root, at=at, change=lambda plan: change(plan, words), given=given, answers=answers
        )
        running = launch.resume(made.run, state_dir=runs.root, limits=limits.alone(), **how)
        with wait_for(made.run, is_new=True):
            return _typed(await launch.until_stopped(running), team)
