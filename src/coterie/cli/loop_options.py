"""The options of `coterie run` that only a loop has, and what they say of its settings.

They are settings like those of a file, and have the last word: `--max-iterations 5` is
`--set event_loop.max_iterations=5`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.argv import BEHIND
from coterie.cli.options import STATE_DIR

if TYPE_CHECKING:
    from coterie.planning.loop import LoopGiven
    from coterie.planning.plan import Plan

MaxIterations = Annotated[
    int | None,
    typer.Option("--max-iterations", "--iterations", "-i", metavar="N", help="A loop: at most N iterations."),
]
UsedProfiles = Annotated[
    list[str] | None,
    typer.Option("--profile", metavar="P", help="A loop: a profile, repo:NAME or user:NAME, as well. Repeatable."),
]
DefaultProfiles = Annotated[
    bool,
    typer.Option("--default-profiles/--no-default-profiles", help="A loop: use the profiles of its settings (yes)."),
]
InWorktree = Annotated[
    bool | None,
    typer.Option("--worktree/--no-worktree", help="A loop: in a git work tree of its own, or not.", show_default=False),
]
MergeStrategy = Annotated[
    str | None, typer.Option(metavar="S", help="A loop: how its work tree is merged: squash, merge or rebase.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="A loop: tell its agents to log everything.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        BEHIND, metavar="WORD", help="A loop: what stands behind --, an argument for its backend.", hidden=True
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says of a loop, beside its folder."""

    max_iterations: int | None = None
    profiles: tuple[str, ...] = ()
    default_profiles: bool = True
    worktree: bool | None = None
    merge_strategy: str | None = None
    verbose: bool = False
    arguments: tuple[str, ...] = ()
    state_dir: Path | None = None

    def settings(self) -> Iterator[str]:
        """The settings that they are, each as `key=value`."""
        if self.max_iterations is not None:
            yield f"event_loop.max_iterations={self.max_iterations}"
        if self.worktree is not None:
            yield f"worktree.enabled={str(self.worktree).lower()}"
        if self.worktree is False:
            yield "isolation.enabled=false"  # either key switches a work tree on
        if self.merge_strategy is not None:
            yield f"worktree.merge_strategy={self.merge_strategy}"
        if self.verbose:
            yield "core.log_level=debug"

    def given(self) -> Iterator[str]:
        """The options of these that were given, as they are written."""
        written = {
            "--max-iterations": self.max_iterations is not None,
            "--profile": bool(self.profiles),
            "--no-default-profiles": not self.default_profiles,
            "--worktree": self.worktree is True,
            "--no-worktree": self.worktree is False,
            "--merge-strategy": self.merge_strategy is not None,
            "--verbose": self.verbose,
            "--": bool(self.arguments),
        }
        return (option for option, was_given in written.items() if was_given)


def loop_given(target: str, flags: Flags, backend: str | None, settings: Sequence[str]) -> "LoopGiven":
    """What is said of the run of *target*; for a file, *settings* are its parameters.

    Raises:
        UsageError: If *target* names nothing that can be run, or a file that is no loop is given an option of one.
    """
    from coterie.cli.team_file import find, is_loop
    from coterie.errors import UsageError
    from coterie.planning.loop import LoopGiven

    if not is_loop(find(target)):
        if options := ", ".join(flags.given()):
            raise UsageError(f"{target!r} is no loop, and {options} is only for loops")
        return LoopGiven(backend=backend or "", overrides=tuple(settings))
    for setting in settings:
        if not setting.partition("=")[0].strip() or "=" not in setting:
            raise UsageError(f"{setting!r} sets nothing; write --set event_loop.max_iterations=5")
    kept = [f"core.state_dir={flags.state_dir}"] if flags.state_dir is not None else []
    return LoopGiven(
        backend=backend or "",
        overrides=(*settings, *flags.settings(), *kept),
        args=flags.arguments,
        profiles=flags.profiles,
        default_profiles=flags.default_profiles,
    )


def home(plan: "Plan", state_dir: Path | None) -> Path:
    """Where a run of *plan* is kept: in *state_dir* if one was given, else where its settings say."""
    from coterie.planning.loop import LoopPlan

    if state_dir is None and isinstance(plan.coordination, LoopPlan):
        return Path(plan.coordination.place.state_dir)
    return state_dir or STATE_DIR
