"""The options of `coterie run` for loops.

They are settings with the highest precedence: `--max-iterations 5` is `--set event_loop.max_iterations=5`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import fields

from coterie.interfaces.cli.parameters import Behind, Opt

if TYPE_CHECKING:
    from coterie.team.planning.loop import LoopGiven
    from coterie.team.planning.place import RunPlace
    from coterie.team.planning.plan import Plan


_FOR_ALL = ("--worktree", "--no-worktree", "--merge-strategy")


class LoopOptions(Struct, frozen=True, kw_only=True):
    """The options that only a loop has, its work tree, and where its run is kept."""

    max_iterations: Annotated[
        int | None, Opt("-i, --iterations, --max-iterations N", "Loop: run at most N iterations.")
    ] = None
    profile: Annotated[
        list[str] | None, Opt("--profile P", "Loop: add a profile, repo:NAME or user:NAME. Repeatable.")
    ] = None
    default_profiles: Annotated[
        bool, Opt("--default-profiles / --no-default-profiles", "Loop: use the profiles from its settings (default).")
    ] = True
    worktree: Annotated[bool, Opt("--worktree", "Work in a separate git work tree.")] = False
    no_worktree: Annotated[bool, Opt("--no-worktree", "Work in the current files.")] = False
    merge_strategy: Annotated[
        str | None, Opt("--merge-strategy S", "Merge its work tree by squash, merge or rebase.")
    ] = None
    verbose: Annotated[bool, Opt("-v, --verbose", "Loop: report every record (core.log_level=debug).")] = False
    arguments: Annotated[list[str] | None, Behind("[-- ARGUMENT …]", "Loop: further arguments for its backend.")] = None
    state_dir: Annotated[
        Path | None,
        Opt("--state-dir DIR", "Where the run is kept (.coterie; for a loop core.state_dir, by default .autoloop)."),
    ] = None

    def settings(self) -> Iterator[str]:
        """The options as settings, each as `key=value`."""
        if self.max_iterations is not None:
            yield f"event_loop.max_iterations={self.max_iterations}"
        if self.worktree:
            yield "worktree.enabled=true"
        elif self.no_worktree:
            yield from ("worktree.enabled=false", "isolation.enabled=false")  # either key enables a work tree
        if self.merge_strategy is not None:
            yield f"worktree.merge_strategy={self.merge_strategy}"
        if self.verbose:
            yield "core.log_level=debug"
        if self.state_dir is not None:
            yield f"core.state_dir={self.state_dir}"

    def place(self) -> "RunPlace":
        """The work tree that these options give a run which has no settings."""
        from coterie.team.planning.place import RunPlace

        return RunPlace(worktree=self.worktree, branch_prefix="coterie", merge_strategy=self.merge_strategy or "squash")

    def given(self) -> Iterator[str]:
        """The given options that only a loop has, as written."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "state_dir" and value != field.default and value not in ([], ()):
                negated = "no-" if value is False else ""
                yield "--" if field.name == "arguments" else f"--{negated}{field.name.replace('_', '-')}"


def loop_given(
    target: str, options: LoopOptions, backend: str | None, settings: Sequence[str], *, travels: bool = False
) -> "LoopGiven":
    """Return the settings on the command line for a run of *target*; *settings* are the parameters of a file.

    Args:
        travels: The run works elsewhere, in work trees anyway.

    Raises:
        UsageError: If *target* names nothing that can be run, or a file that is no loop is given an option of one.
    """
    from coterie.errors import UsageError
    from coterie.interfaces.cli.team_file import find, is_loop
    from coterie.team.planning.loop import LoopGiven

    if options.worktree and options.no_worktree:
        raise UsageError("--worktree and --no-worktree contradict each other: give one of them")
    if not is_loop(find(target)):
        if given := ", ".join(word for word in options.given() if word not in (() if travels else _FOR_ALL)):
            raise UsageError(f"{target!r} is not a loop, and {given} is only for loops")
        return LoopGiven(backend=backend or "", overrides=tuple(settings))
    for setting in settings:
        if not setting.partition("=")[0].strip() or "=" not in setting:
            raise UsageError(f"{setting!r} is not KEY=VALUE; write --set event_loop.max_iterations=5")
    return LoopGiven(
        backend=backend or "",
        overrides=(*settings, *options.settings()),
        args=tuple(options.arguments or ()),
        profiles=tuple(options.profile or ()),
        default_profiles=options.default_profiles,
    )


def home(plan: "Plan", state_dir: Path | None) -> Path:
    """Return where a run of *plan* is kept: *state_dir* if given, else that of its settings, or the usual one."""
    from coterie.execution.runs.index import usual_home
    from coterie.team.planning.loop import LoopPlan

    if state_dir is None and isinstance(plan.coordination, LoopPlan):
        return Path(plan.coordination.place.state_dir)
    return state_dir or usual_home()
