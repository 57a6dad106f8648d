"""`coterie presets`: the loops that come ready-made."""

from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import say, say_json

if TYPE_CHECKING:
    from coterie.presets.catalogue import Preset


def presets(
    show: Annotated[
        str | None, typer.Argument(metavar="show", help="Show one; without it all are listed.", show_default=False)
    ] = None,
    preset: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one to show.", show_default=False)] = None,
    as_json: AsJson = False,
) -> int:
    """List the loops that come ready-made, or show one: its roles, and which event leads to whom.

    `coterie run NAME` runs one as it is; `coterie init --preset NAME` copies it, to be changed.
    """
    from coterie.errors import UsageError
    from coterie.presets.catalogue import catalogue, describe

    if show is not None and (show != "show" or preset is None):
        raise UsageError("write `coterie presets`, or `coterie presets show NAME`")
    if preset is not None:
        one = describe(preset)
        if as_json:
            say_json(one)
        else:
            say(_whole(one))
        return 0
    found = catalogue()
    if as_json:
        say_json(found)
    else:
        say("\n".join(map(_entry, found)))
    return 0


def _entry(preset: "Preset") -> str:
    roles = ", ".join(role.name for role in preset.roles)
    return f"{preset.name}\n  {preset.about}\n  roles: {roles}\n  required: {', '.join(preset.required)}"


def _whole(preset: "Preset") -> str:
    lines = [f"{preset.name}: {preset.about}", ""]
    for role in preset.roles:
        lines.append(f"{role.name}  {role.about}")
        lines += [f"  {event} -> {_target(preset, event, targets)}" for event, targets in role.emits.items()]
    lines += ["", f"begins with: {', '.join(preset.first)}"]
    lines += [f"completes by: {preset.completion}, once {', '.join(preset.required)} came before"]
    lines += [f"files: {preset.folder}"]
    return "\n".join(lines)


def _target(preset: "Preset", event: str, targets: tuple[str, ...]) -> str:
    return "the end" if event == preset.completion else ", ".join(targets)
