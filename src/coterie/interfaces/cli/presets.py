"""`coterie presets`: the built-in loops."""

from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg

if TYPE_CHECKING:
    from coterie.team.planning.presets.catalogue import Preset


def presets(
    show: Annotated[str | None, Arg("show", "Show one preset instead of listing all.")] = None,
    preset: Annotated[str | None, Arg("NAME", "The preset to show.")] = None,
    as_json: AsJson = False,
) -> int:
    """List the built-in loops, or show the roles and events of one.

    `coterie run NAME --rehearse` tries one without a backend, and `coterie doctor` shows the backends that can run it.
    `coterie init --preset NAME` copies it for you to change.
    """
    from coterie.errors import UsageError
    from coterie.team.planning.presets.catalogue import catalogue, describe

    if show != "show" and preset is None:
        preset = show
    elif show is not None and (show != "show" or preset is None):
        raise UsageError("write `coterie presets`, or `coterie presets show NAME`")
    if preset is not None:
        one = describe(preset)
        print_result(as_json, one, lambda: _whole(one))
        return 0
    found = catalogue()
    print_result(as_json, found, lambda: "\n".join(map(_entry, found)))
    return 0


def _entry(preset: "Preset") -> str:
    roles = ", ".join(role.name for role in preset.roles)
    return f"{preset.name}\n  {preset.about}\n  roles: {roles}\n  required: {', '.join(preset.required)}"


def _whole(preset: "Preset") -> str:
    lines = [f"{preset.name}: {preset.about}", ""]
    for role in preset.roles:
        lines.append(f"{role.name}  {role.about}")
        for event, targets in role.emits.items():
            lines.append(f"  {event} -> {'the end' if event == preset.completion else ', '.join(targets)}")
    lines += ["", f"begins with: {', '.join(preset.first)}"]
    lines += [f"completes by: {preset.completion}, once {', '.join(preset.required)} came before"]
    lines += [f"needs an agent that can: {preset.needs}"]
    lines += [f"files: {preset.folder}", f"try it without a backend: coterie run {preset.name} --rehearse"]
    return "\n".join(lines)
