"""Runs of other directories: what a command does before it changes one."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from coterie.interfaces.cli.options import STATE_DIR, HomeOptions, StateDir
from coterie.interfaces.cli.output import at_terminal, complain, confirm
from coterie.interfaces.cli.parameters import Opt

if TYPE_CHECKING:
    from coterie.execution.runs.repository import Elsewhere

In = Annotated[Path | None, Opt("--in DIR", "Act on the runs of DIR instead of this directory.")]


class DirectoryOptions(Struct, frozen=True, kw_only=True):
    """The directory of this machine whose runs a command changes."""

    state_dir: StateDir = STATE_DIR
    directory: In = None

    @property
    def path(self) -> Path:
        """Its state directory.

        Raises:
            UsageError: If there is no such directory.
        """
        return self.state_dir if self.directory is None else _state_dir_of(self.directory)


class RemovalOptions(HomeOptions, frozen=True, kw_only=True):
    """Where runs are removed."""

    directory: In = None

    @property
    def path(self) -> Path:
        """The state directory.

        Raises:
            UsageError: If `coterie runs` lists the runs of a cluster, or there is no such directory.
        """
        from coterie.errors import UsageError

        if self.directory is not None:
            return _state_dir_of(self.directory)
        if not isinstance(found := self.where, Path):
            todo = "add --cluster '' to remove runs of this directory"
            raise UsageError(f"a cluster keeps its runs, and they cannot be removed from here; {todo}")
        return found


def _state_dir_of(directory: Path) -> Path:
    from coterie.errors import UsageError
    from coterie.execution.runs.index import state_dir_of

    if not directory.is_dir():
        raise UsageError(f"--in {directory}: there is no such directory")
    return state_dir_of(directory.resolve())


def show_place(run: str, place: Path) -> None:
    """Print that *run* is in *place*."""
    complain(f"run {run} is in {place}, another directory")


def confirm_place(action: str) -> "Elsewhere":
    """Return a function that lets the user confirm *action*, on a terminal, for a run of another directory."""
    from coterie.errors import UsageError

    def confirm_one(run: str, place: Path) -> None:
        found = f"run {run!r} is in {place}, another directory"
        if not at_terminal():
            raise UsageError(f"{found}: add --in {shlex.quote(str(place))} to {action} it")
        if not confirm(f"{found}; {action} it?"):
            raise UsageError(f"run {run!r} was left as it is")

    return confirm_one
