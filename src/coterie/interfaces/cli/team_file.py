"""Read a team's file for a command: its topology, plan and diagnostics."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, Severity, did_you_mean, note
from coterie.base.waits import waiting
from coterie.errors import PluginError, TopologyError, UsageError
from coterie.interfaces.cli.inputs import pair
from coterie.team import formats, planning
from coterie.team.formats.files import SUFFIXES, SYSTEM_FILES
from coterie.team.formats.folders import SETTINGS, TOPOLOGY, loop_folder
from coterie.team.formats.programs import is_program
from coterie.team.planning import ONLY_FOR_A_RUN, presets
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Topology

OF_OPTIONS = ("no-arguments", "bad-override")
"""Codes of errors about options of the command, wherever they are reported."""


class Examined(Struct, frozen=True, kw_only=True):
    """A file with its diagnostics; *plan* is None if it cannot be run."""

    file: str
    text: str
    topology: Topology | None
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def valid(self) -> bool:
        """Whether no diagnostic is an error."""
        return not self.errors

    @property
    def exit(self) -> int:
        """The exit status: 0 if it is valid, 2 if there is no such file, else 1."""
        return 0 if self.valid else 1 if Path(self.file).exists() else 2

    @property
    def is_system(self) -> bool:
        """Whether it is the file of a supervised system."""
        if self.topology is not None:
            return self.topology.system is not None
        return Path(self.file).name in SYSTEM_FILES or any(one.code == "no-supervision" for one in self.diagnostics)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors among the diagnostics."""
        return tuple(one for one in self.diagnostics if one.is_error)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings among the diagnostics."""
        return tuple(one for one in self.diagnostics if one.severity is Severity.WARNING)

    def check_options(self) -> None:
        """Check the options of the command.

        Raises:
            UsageError: If one is unknown or has a wrong value.
        """
        for one in self.diagnostics:
            from coterie.team.formats.settings.layers import GIVEN  # files without settings do not load it

            if one.code in OF_OPTIONS or (one.file == GIVEN and (one.is_error or one.code == "unknown-setting")):
                raise UsageError("; ".join(filter(None, (one.message, one.hint))))

    def for_a_run(self) -> "Examined":
        """Return a copy in which diagnostics that only prevent a run are errors if there is no plan."""
        if self.plan is not None:
            return self
        found = (
            replace(one, severity=Severity.ERROR) if one.code in ONLY_FOR_A_RUN else one for one in self.diagnostics
        )
        return replace(self, diagnostics=tuple(found))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: `file, valid, diagnostics`."""
        return {"file": self.file, "valid": self.valid, "diagnostics": [one.to_dict() for one in self.diagnostics]}


def examine(
    file: Path, backend: str | None = None, params: Mapping[str, Scalar] | None = None, given: LoopGiven | None = None
) -> Examined:
    """Read and plan *file*, or the preset of that name, with values for its parameters.

    Args:
        given: The settings of a loop from the command line.
    """
    with waiting(f"{file} to be read and checked"):
        named = not file.exists() and presets.is_preset(str(file))
        source = formats.read(presets.find(str(file)) if named else file, params)
        plan, found = planning.examine(source, backend=backend, given=given)
    return Examined(file=str(file), text=source.text, topology=source.topology, plan=plan, diagnostics=found)


def with_programs(found: Examined) -> Examined:
    """Return *found* with a note for each program of its agents that this machine lacks; another one may have it."""
    from coterie.agents.backends.needs import absent_programs

    lines = absent_programs(_agents(found.plan)) if found.plan is not None else ()
    notes = (
        replace(note("program-not-here", line, hint="install it, or write its path"), file=found.file) for line in lines
    )
    return replace(found, diagnostics=(*found.diagnostics, *notes))


def _agents(plan: Plan) -> Iterator[tuple[str, AgentPlan]]:
    for name, agent in plan.agents.items():
        if agent.child is None:
            yield name, agent
        else:
            yield from ((f"{name}/{below}", one) for below, one in _agents(agent.child))


def with_imports(found: Examined, *, to_run: bool = False, process: str | None = None) -> Examined:
    """Return *found* with an error for each class of its supervised system that cannot be imported.

    Args:
        to_run: Classes with short names are errors, too.
        process: Import only what this process hosts: a worker of that name, or empty: that of the supervisors.
    """
    from coterie.agents.actors.imports import import_classes  # it runs code of the user

    if found.topology is None or found.topology.system is None:
        return found
    folder = str(Path(found.file).parent)
    missing = import_classes(found.topology.system, folder, to_run=to_run, process=process)
    return replace(found, diagnostics=(*found.diagnostics, *(replace(one, file=found.file) for one in missing)))


def mend(file: Path) -> tuple[Fix, ...]:
    """Apply to *file* the fixes that its diagnostics offer, and return them."""
    from coterie.base.files import replace_text
    from coterie.team.formats.fixes import apply_fixes

    fixed = apply_fixes(formats.read(file), lambda source: planning.examine(source)[1], file.parent)
    if fixed.fixes:
        replace_text(Path(fixed.source.file), fixed.source.text)
    return fixed.fixes


def plan_for_a_run(target: str, given: LoopGiven) -> tuple[Plan, Examined]:
    """Return the plan of the team that *target* names; for a file, *given* sets its parameters.

    Raises:
        UsageError: If *target* names nothing that can be run, or *given* does not apply to it.
        TopologyError: If the file has errors or cannot be run.
    """
    path = find(target)
    if is_loop(path):
        found = examine(path, given=given)
    else:
        _refuse_for_files(target, given)
        found = examine(path, given.backend or None, dict(map(pair, given.overrides)))
    found = found.for_a_run()
    found.check_options()
    if found.plan is None or found.errors:
        raise TopologyError(found.errors, found.text)
    return found.plan, found


def find(target: str) -> Path:
    """Return the path that *target* names: a team's file, the folder of a loop, or a preset if there is neither.

    Raises:
        UsageError: If it names nothing that can be run.
    """
    path = Path(target)
    if is_loop(path) or (path.suffix in SUFFIXES and path.is_file()) or is_program(path):
        return path
    if presets.is_preset(target):
        return presets.find(target)
    near = _near(path)
    if path.suffix in SUFFIXES:
        hint = near or "TARGET is an .at or .yaml file, or the folder of a loop"
        raise UsageError(f"there is no file {target!r}; {hint}")
    if path.is_dir():
        names = ", ".join((TOPOLOGY, *SETTINGS))
        raise UsageError(f"{target!r} is not the folder of a loop: it contains none of {names}")
    if path.suffix == ".py":
        near = f"name the program in it, {target}:NAME; run another team in Python: asyncio.run(coterie.run(team, …))"
    hint = (
        near
        or did_you_mean(target, presets.names())
        or "TARGET is an .at or .yaml file, the folder of a loop, or a preset"
    )
    raise UsageError(f"{target!r} cannot be run: {hint}")


def _near(path: Path) -> str:
    """A suggestion of a file or a loop beside *path* with a similar name, or with another suffix; empty: none."""
    with suppress(OSError):
        here = [one for one in path.parent.iterdir() if one.suffix in SUFFIXES or (one.is_dir() and is_loop(one))]
        if same := [one for one in here if path.stem.lower() == one.stem.lower()]:
            return f"did you mean {str(same[0])!r}?"
        return did_you_mean(str(path), map(str, here))
    return ""


def is_preset(target: str) -> bool:
    """Whether *target* names a preset, and not a file or folder of that name."""
    return presets.is_preset(target) and find(target) == presets.find(target)


@contextmanager
def locating_plugins(found: Examined) -> Iterator[None]:
    """Report the fault of a plugin, which may appear only when it is created, at its place in the file of *found*."""
    try:
        yield
    except PluginError as fault:
        from coterie.agents.actors.imports import plugin_fault

        system = found.topology.system if found.topology is not None else None
        if system is None or not fault.place:
            raise
        raise TopologyError((replace(plugin_fault(system, fault), file=found.file),), found.text) from fault


def is_loop(path: Path) -> bool:
    """Whether *path* is a loop."""
    return loop_folder(path) is not None


def _refuse_for_files(target: str, given: LoopGiven) -> None:
    """Raise a `UsageError` if *given* has settings of loops."""
    for setting in given.overrides:
        option = {"transport.type": "--transport", "transport.servers": "--nats-url"}.get(setting.partition("=")[0])
        if option is not None and target.endswith(".at"):
            raise UsageError(f"{option} is for supervised systems, and {target} is none")
    if given.args or given.profiles or not given.default_profiles:
        raise UsageError(f"{target!r} is not a loop: it takes no profiles and no arguments behind --")
