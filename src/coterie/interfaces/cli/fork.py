"""`coterie fork`: a new run that shares the beginning of another one."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.interfaces.cli.options import DriveOptions, HomeOptions, LimitOptions, Run
from coterie.interfaces.cli.output import complain, say
from coterie.interfaces.cli.parameters import Opt
from coterie.interfaces.cli.places import show_place
from coterie.interfaces.cli.run import carry_on, plan_of

if TYPE_CHECKING:
    from coterie.team.planning.changes import AgentChange
    from coterie.team.planning.plan import Plan


def fork(
    run: Run,
    at: Annotated[
        int | None,
        Opt(
            "--at SEQ",
            "The last record to share; by default the last, before the end or failure of a run that has ended.",
        ),
    ] = None,
    prompts: Annotated[list[str] | None, Opt("--prompt AGENT=FILE", "Another prompt for an agent. Repeatable.")] = None,
    models: Annotated[
        list[str] | None, Opt("--model [AGENT=]M", "Another model for an agent, or for all. Repeatable.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        Opt(
            "--set [AGENT.]K=V",
            "Change a setting of an agent, or of all: retry, timeout, on-fail …; k:=JSON for a list. Repeatable.",
        ),
    ] = None,
    named: Annotated[
        list[str] | None, Opt("--input NAME=V", "Another value of the input, or prompt=…; NAME:=JSON. Repeatable.")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        Opt(
            "--output TURN[.NAME]=V",
            "Another answer: an output, or the text, of a turn, or of an agent's latest turn. Repeatable.",
        ),
    ] = None,
    backend: Annotated[str | None, Opt("-b, --backend B", "Another backend for all agents.")] = None,
    reload: Annotated[Path | None, Opt("--reload FILE", "Use the plan of FILE, not the recorded one.")] = None,
    no_worktree: Annotated[
        bool, Opt("--no-worktree", "Work in the folder of RUN, with its files as they are now.")
    ] = False,
    no_resume: Annotated[bool, Opt("--no-resume", "Only make the new run, for `coterie resume`.")] = False,
    *,
    home: HomeOptions,
    limits: LimitOptions,
    drive: DriveOptions,
) -> int:
    """Start a new run that shares the beginning of another one.

    The new run begins with the records of RUN up to SEQ (`coterie inspect RUN` numbers them) and continues from there,
    with other prompts, models or settings if you give them. RUN does not change. Turns that had finished are not
    repeated; turns that were running are retried, with a note in their prompt. If git has a snapshot of the files at
    SEQ, the new run works on it in a new work tree. An agent inside a nested team is NODE/AGENT. Limits include the
    shared part. Exit status as for `run`.
    """
    from coterie.agents.actors.turns import missing
    from coterie.execution.runs import control
    from coterie.execution.runs.repository import find, location_at
    from coterie.interfaces.cli.before import show_risks
    from coterie.interfaces.cli.inputs import pair
    from coterie.team.planning import changes

    runs, run = find(run, where := home.where, show_place)
    wanted = _changes(prompts or (), models or (), settings or (), backend)
    instead = plan_of(reload) if reload is not None else None
    bounds, plans = limits.limits().alone(), list["Plan"]()

    def change(recorded: "Plan") -> "Plan":
        plans.append(changes.change(instead or recorded, wanted))
        if given:
            list(missing(plans[-1]))  # imports the functions, whose parameters say which names mean something
        return plans[-1]

    given, answers = dict(map(pair, named or ())), _answers(outputs or ())
    made = control.fork(runs, run, at=at, change=change, given=given, answers=answers, files=not no_worktree)
    again = f"; will retry: {', '.join(made.again)}" if made.again else ""
    complain(f"forked {made.origin} at record {made.seq} as {made.run}{again}")
    if made.cwd:
        complain(f"its files, as of that record: {made.cwd}")
    if made.left_out:
        places = [shlex.quote(f"{runs.folder(one).absolute()}/NAME") for one in (made.origin, made.run)]
        complain(f"it lacks {', '.join(made.left_out)}; to copy one: cp -a {' '.join(places)}")
    if no_resume:
        say(made.run)
        return 0
    tape, on_nodes = drive.recording(), isinstance(runs, control.RemoteRuns)
    found = show_risks(
        plans[-1],
        bounds,
        "the cluster" if on_nodes else str(runs.root),
        folder=Path(made.cwd),
        on_nodes=on_nodes,
        as_json=drive.as_json,
        is_recorded=tape is not None and tape.replays,
    )
    return carry_on(runs, made.run, location_at(where).option, bounds, drive, before=found, cassette=tape)


def _changes(
    prompts: Iterable[str], models: Iterable[str], settings: Iterable[str], backend: str | None
) -> "list[AgentChange]":
    """Return the changes that the options make; those for all agents come first."""
    from coterie.errors import UsageError
    from coterie.interfaces.cli.inputs import pair
    from coterie.team.planning.changes import AgentChange, word

    found = [AgentChange(agent="", key="backend", value=backend)] if backend is not None else []
    named = [one.rpartition("=")[::2] for one in models]
    found += [
        AgentChange(agent=agent, key="model", value=model)
        for agent, model in sorted(named, key=lambda one: one[0] != "")
    ]
    for prompt in prompts:
        agent, _, file = prompt.partition("=")
        if not agent or not file:
            raise UsageError(f"--prompt {prompt!r}: write --prompt AGENT=FILE")
        found.append(AgentChange(agent=agent, key="prompt", value=_text_of(Path(file))))
    return found + [word(*pair(setting)) for setting in settings]


def _answers(outputs: Iterable[str]) -> "dict[str, dict[str, Any] | str]":
    """The other answers that `--output` gives, by turn."""
    from coterie.errors import UsageError
    from coterie.interfaces.cli.inputs import pair

    found: dict[str, dict[str, Any] | str] = {}
    for one in outputs:
        name, value = pair(one)
        if name.startswith(".") or name.endswith("."):
            raise UsageError(f"--output {one!r} names no turn or no output: write --output TURN.NAME=VALUE")
        turn, _, output = name.rpartition(".")
        if not turn or "#" in output:
            if not isinstance(value, str | dict):
                raise UsageError(f"--output {one!r}: an answer is a text, or an object of outputs")
            found[name] = value
            continue
        answer = found.setdefault(turn, {})
        if isinstance(answer, str):
            raise UsageError(f"--output {one!r}: {turn} has another text already; give a text or outputs")
        answer[output] = value
    return found


def _text_of(file: Path) -> str:
    from coterie.errors import UsageError

    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"the prompt file {file} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"the prompt file {file} cannot be read: {error.strerror}") from None
