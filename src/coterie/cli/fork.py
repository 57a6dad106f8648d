"""`coterie fork`: a new run that shares the beginning of another one, and goes on under other words."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli import run as runs_command
from coterie.cli.options import STATE_DIR, AsJson, Cassette, MaxCost, MaxParallel, MaxTurns, Park, Run, StateDir
from coterie.cli.output import complain

if TYPE_CHECKING:
    from coterie.planning.changes import AgentChange
    from coterie.planning.plan import Plan


def fork(
    run: Run,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="SEQ",
            help="The last record to share; by default the last there is, before the end of a run that has ended.",
            show_default=False,
        ),
    ] = None,
    prompts: Annotated[
        list[str] | None,
        typer.Option("--prompt", metavar="AGENT=FILE", help="Another prompt for an agent. Repeatable."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="[AGENT=]M", help="Another model for an agent, or for all. Repeatable."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[AGENT.]K=V",
            help="Another word on an agent, or on all: retry, timeout, on-fail …; k:=JSON for a list. Repeatable.",
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", metavar="B", help="Who thinks for all agents from there on.")
    ] = None,
    reload: Annotated[
        Path | None,
        typer.Option("--reload", metavar="FILE", help="Go on with the plan of FILE, not the recorded one."),
    ] = None,
    no_worktree: Annotated[
        bool, typer.Option("--no-worktree", help="Go on with the files as they are, where RUN worked.")
    ] = False,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    max_parallel: MaxParallel = None,
    park: Park = None,
    cassette: Cassette = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Start a new run that shares the beginning of another one.

    It begins with the records of RUN up to SEQ (`coterie inspect RUN` numbers them) and goes on from there, perhaps
    with other prompts, models or rules; RUN itself stays as it is. What had been finished by then is not done again;
    what was under way is asked again and told so. Where git kept them, the fork has the files as they were at SEQ, in a
    work tree of its own. An agent inside a team that is a node is named NODE/AGENT. Limits
    count what is shared, too. The status says what that of `run` says.
    """
    from coterie.planning import changes
    from coterie.runs import fork as forking
    from coterie.runs.repository import find

    runs, run = find(run, state_dir)
    wanted = _changes(prompts or (), models or (), settings or (), backend)
    instead = runs_command._plan(str(reload), None) if reload is not None else None

    def change(recorded: "Plan") -> "Plan":
        return changes.change(instead or recorded, wanted)

    made = forking.fork(run, state_dir=runs.root, at=at, change=change, files=not no_worktree)
    again = f"; asked again: {', '.join(made.again)}" if made.again else ""
    complain(f"forked {made.origin} at record {made.seq} as {made.run}{again}")
    if made.cwd:
        complain(f"its files are as they were then: {made.cwd}")
    return runs_command.resume(
        made.run,
        max_turns=max_turns,
        max_cost=max_cost,
        max_parallel=max_parallel,
        park=park,
        cassette=cassette,
        as_json=as_json,
        state_dir=runs.root,
    )


def _changes(
    prompts: Iterable[str], models: Iterable[str], settings: Iterable[str], backend: str | None
) -> "list[AgentChange]":
    """What the options change, those for all agents first."""
    from coterie.cli.inputs import pair
    from coterie.errors import UsageError
    from coterie.planning.changes import AgentChange, word

    found = [AgentChange(agent="", key="backend", value=backend)] if backend is not None else []
    named = [one.rpartition("=")[::2] for one in models]
    found += [
        AgentChange(agent=agent, key="model", value=model)
        for agent, model in sorted(named, key=lambda one: one[0] != "")
    ]
    for prompt in prompts:
        agent, _, file = prompt.partition("=")
        if not agent or not file:
            raise UsageError(f"--prompt {prompt!r} names no agent and file; write --prompt AGENT=FILE")
        found.append(AgentChange(agent=agent, key="prompt", value=_text_of(Path(file))))
    return found + [word(*pair(setting)) for setting in settings]


def _text_of(file: Path) -> str:
    """The whole of *file*."""
    from coterie.errors import UsageError

    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"the prompt file {file} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"the prompt file {file} cannot be read: {error.strerror}") from None
