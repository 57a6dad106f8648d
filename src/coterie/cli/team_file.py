"""Reading a team's file for a command: the topology, the plan, and everything that was found."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie import formats, planning, presets
from coterie.cli.inputs import pair
from coterie.diagnostics import Diagnostic, Fix, Severity, did_you_mean
from coterie.errors import TopologyError, UsageError
from coterie.formats.files import SUFFIXES
from coterie.formats.folders import SETTINGS, TOPOLOGY, loop_folder
from coterie.planning import ONLY_FOR_A_RUN
from coterie.planning.loop import LoopGiven
from coterie.planning.plan import Plan
from coterie.topology.conditions import Scalar
from coterie.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A file and what was found in it; *plan* is None when it cannot be run."""

    file: str
    text: str
    topology: Topology | None
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def valid(self) -> bool:
        """Whether nothing that was found is an error."""
        return not any(diagnostic.is_error for diagnostic in self.diagnostics)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What a run of it should know beforehand."""
        return tuple(one for one in self.diagnostics if one.severity is Severity.WARNING)

    @property
    def of_the_command_line(self) -> tuple[Diagnostic, ...]:
        """The warnings about what was given, not about what was read: no other command tells them."""
        from coterie.settings.layers import GIVEN  # files of teams have none

        return tuple(one for one in self.warnings if one.file == GIVEN)

    def for_a_run(self) -> "Examined":
        """The same where it shall be run: what only keeps it from running is an error as well."""
        if self.plan is not None:
            return self
        told = (
            replace(one, severity=Severity.ERROR) if one.code in ONLY_FOR_A_RUN else one for one in self.diagnostics
        )
        return replace(self, diagnostics=tuple(told))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: `file, valid, diagnostics`."""
        return {"file": self.file, "valid": self.valid, "diagnostics": [one.to_dict() for one in self.diagnostics]}


def examine(
    file: Path,
    backend: str | None = None,
    params: Mapping[str, Scalar] | None = None,
    given: LoopGiven | None = None,
) -> Examined:
    """Read *file*, with values for its parameters, and plan it, as far as it goes, and say all that was found.

    The name of a preset will do, too.

    Args:
        given: What the command line says of a loop.
    """
    source = formats.read(_preset(file), params)
    plan, found = planning.examine(source, backend=backend, given=given)
    return Examined(file=str(file), text=source.text, topology=source.topology, plan=plan, diagnostics=found)


def mend(file: Path) -> tuple[Fix, ...]:
    """Apply to *file* the fixes that are offered for what is found in it, and say which."""
    from coterie.files import replace_text
    from coterie.formats.fixes import apply_fixes

    fixed = apply_fixes(formats.read(file), lambda source: planning.examine(source)[1], file.parent)
    if fixed.fixes:
        replace_text(Path(fixed.source.file), fixed.source.text)
    return fixed.fixes


def plan_for_a_run(target: str, given: LoopGiven) -> tuple[Plan, Examined]:
    """The plan of the team that *target* names, ready to run; what *given* sets are the parameters of a file.

    Raises:
        UsageError: If *target* names nothing that can be run, or what is given does not fit it.
        TopologyError: If the file is wrong, or cannot be run.
    """
    path = find(target)
    if is_loop(path):
        found = examine(path, given=given)
    else:
        _refuse_for_files(target, given)
        found = examine(path, given.backend or None, dict(map(pair, given.overrides)))
    found = found.for_a_run()
    wrong = [one for one in found.diagnostics if one.is_error]
    for one in wrong:
        if one.code == "no-arguments":
            raise UsageError(f"{one.message}; {one.hint}")
    if found.plan is None or wrong:
        raise TopologyError(wrong, found.text)
    return found.plan, found


def find(target: str) -> Path:
    """Where what *target* names is: a file of a team, the folder of a loop, or a preset, which folders go before.

    Raises:
        UsageError: If it names nothing that can be run.
    """
    path = Path(target)
    if is_loop(path) or (path.suffix in SUFFIXES and path.is_file()):
        return path
    if presets.is_preset(target):
        return presets.find(target)
    if path.suffix in SUFFIXES:
        raise UsageError(f"there is no file {target!r}; TARGET is an .at or .yaml file, or the folder of a loop")
    if path.is_dir():
        names = ", ".join((TOPOLOGY, *SETTINGS))
        raise UsageError(f"{target!r} is no folder of a loop: it would hold one of {names}")
    hint = did_you_mean(target, presets.names()) or "TARGET is an .at or .yaml file, the folder of a loop, or a preset"
    raise UsageError(f"{target!r} cannot be run: {hint}")


def _preset(file: Path) -> Path:
    """The folder of the preset that *file* names, if there is none of that name here; else itself."""
    return presets.find(str(file)) if not file.exists() and presets.is_preset(str(file)) else file


def is_loop(path: Path) -> bool:
    """Whether at *path* there is a loop."""
    return loop_folder(path) is not None


def _refuse_for_files(target: str, given: LoopGiven) -> None:
    """A file of a team has no settings of a loop."""
    if given.args or given.profiles or not given.default_profiles:
        raise UsageError(f"{target!r} is no loop: it takes no profiles, and no arguments behind --")
