"""Describe presets from their files."""

import tomllib
from collections.abc import Mapping

from msgspec import Struct

from coterie.team.formats.toml import read_folder
from coterie.team.planning.presets import find, names
from coterie.team.topology.events import START
from coterie.team.topology.loop import Loop

CHANGES = "edit files, run programs, commit"
REPORTS = "run programs, write a report"
NEEDS = {
    "autocode": CHANGES,
    "autodoc": CHANGES,
    "autofix": CHANGES,
    "autoideas": REPORTS,
    "autoperf": CHANGES,
    "autoqa": REPORTS,
    "autoresearch": CHANGES,
    "autoreview": REPORTS,
    "autosec": CHANGES,
    "autosimplify": CHANGES,
    "autospec": "run programs, write documents",
    "autotest": CHANGES,
}
"""The actions of each preset's agents, according to its prompts."""


class PresetRole(Struct, frozen=True, kw_only=True):
    """A role of a preset.

    Attributes:
        about: The first line of its prompt.
        emits: Each event it may emit, and the roles that follow; none if it completes the loop.
    """

    name: str
    about: str
    emits: Mapping[str, tuple[str, ...]]


class Preset(Struct, frozen=True, kw_only=True):
    """A preset.

    Attributes:
        about: Its purpose in one line: the first of its `harness.md`.
        needs: The actions of its agents in the working directory.
        roles: In declared order.
        first: The first roles.
        completion: The event that completes it, once all *required* ones were accepted.
        max_iterations: The maximum number of iterations.
    """

    name: str
    about: str
    needs: str
    roles: tuple[PresetRole, ...]
    first: tuple[str, ...]
    required: tuple[str, ...]
    completion: str
    max_iterations: int
    folder: str


def catalogue() -> tuple[Preset, ...]:
    """All presets, in alphabetical order."""
    return tuple(map(describe, names()))


def describe(name: str) -> Preset:
    """The preset *name*.

    Raises:
        UsageError: If there is none of that name.
    """
    folder = find(name)
    topology = read_folder(folder).topology
    loop = (topology.loop if topology is not None else None) or Loop()
    settings = tomllib.loads((folder / "autoloops.toml").read_text(encoding="utf-8"))["event_loop"]
    leads = {one.event: one.targets for one in loop.handoff}
    return Preset(
        name=name,
        about=(folder / "harness.md").read_text(encoding="utf-8").partition("\n")[0].strip(),
        needs=NEEDS[name],
        roles=tuple(
            PresetRole(
                name=role.id,
                about=role.prompt.partition("\n")[0].strip(),
                emits={event: leads.get(event, ()) for event in role.emits},
            )
            for role in loop.roles
        ),
        first=leads.get(START, ()),
        required=tuple(settings["required_events"]),
        completion=loop.completion,
        max_iterations=settings["max_iterations"],
        folder=str(folder),
    )
