"""`coterie config …`: what the settings of a loop are, where each came from, and changing one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.settings import Settings

Project = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="The project's folder (the current one).", show_default=False),
]
Preset = Annotated[str, typer.Option("--preset", metavar="P", help="The preset whose overrides count.")]
User = Annotated[bool, typer.Option("--user", help="The user's override, for all repositories.")]
Repo = Annotated[bool, typer.Option("--repo", help="This repository's override.")]


def show(
    project: Project = None,
    preset: Preset = "",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="As a run would be given it. Repeatable.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say where each value came from: layer, file, line.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the settings that a run would have.

    What is wrong with a file is told, and the status is 1.
    """
    from coterie.settings import resolve

    folder = project or _preset_folder(preset) or Path()
    settings, found = resolve(folder, work_dir=Path.cwd(), env=os.environ, preset=preset, overrides=overrides or ())
    for diagnostic in found:
        complain(diagnostic.render(_text(diagnostic.file)).rstrip("\n"))
    if as_json:
        say_json(_as_data(settings))
    else:
        say("\n".join(_lines(settings, explain)))
    return int(any(diagnostic.is_error for diagnostic in found))


def set_(
    setting: Annotated[str, typer.Argument(metavar="KEY=VALUE", help="What to set.", show_default=False)],
    preset: Preset = "",
    user: User = False,
    repo: Repo = False,
) -> int:
    """Set a value for a preset, in the user's or this repository's override of it."""
    from coterie.errors import UsageError
    from coterie.settings.edit import set_value

    name, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"{setting!r} sets nothing: write KEY=VALUE")
    path = _override(preset, user, repo)
    set_value(path, name.strip(), value.strip())
    say(f"set {name.strip()} = {value.strip()} in {path}")
    return 0


def unset(
    name: Annotated[str, typer.Argument(metavar="KEY", help="Which setting.", show_default=False)],
    preset: Preset = "",
    user: User = False,
    repo: Repo = False,
) -> int:
    """Take a value out of an override again."""
    from coterie.settings.edit import unset_value

    path = _override(preset, user, repo)
    say(f"unset {name} in {path}" if unset_value(path, name) else f"{name} is not set in {path}")
    return 0


def path(project: Project = None, preset: Preset = "", as_json: AsJson = False) -> int:
    """Show where the files of the layers lie, lowest first, and which of them are there."""
    from coterie.settings.layers import layer_files

    folder = project or _preset_folder(preset) or Path()
    layers = list(layer_files(folder, Path.cwd(), os.environ, preset))
    if as_json:
        say_json([{"layer": layer, "path": str(file), "exists": file.is_file()} for layer, file in layers])
    else:
        width = max(len(layer) for layer, _ in layers)
        say("\n".join(f"{layer:{width}}  {file}{'' if file.is_file() else '  (not there)'}" for layer, file in layers))
    return 0


def _override(preset: str, user: bool, repo: bool) -> Path:
    from coterie.errors import UsageError
    from coterie.settings.layers import override_file

    if user == repo:
        raise UsageError("say whose override it is: --user or --repo")
    if not preset or "/" in preset:
        raise UsageError("say which preset it is for: --preset NAME")
    return override_file("user" if user else "repo", preset, Path.cwd(), os.environ)


def _preset_folder(preset: str) -> Path | None:
    """The folder of a preset that coterie brings along."""
    from coterie import presets

    return presets.find(preset) if presets.is_preset(preset) else None


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _lines(settings: "Settings", explain: bool) -> list[str]:
    from coterie.settings import keys

    values = {name: _value(settings, name) for name in keys()} | dict(settings.unknown)
    shown = {name: f"{name} = {_written(value)}" for name, value in values.items()}
    if not explain:
        return list(shown.values())
    width = min(60, max(map(len, shown.values())))
    return [f"{line:{width}}  # {settings.origins.get(name, 'unknown, no effect')}" for name, line in shown.items()]


def _value(settings: "Settings", name: str) -> Any:
    """The value of a setting as a file would say it: times are milliseconds there."""
    from coterie.settings import keys

    value: Any = settings.value(name)
    return round(value * 1000) if value is not None and keys()[name].type in ("ms", "duration") else value


def _written(value: Any) -> str:
    import json

    return "(unset)" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _as_data(settings: "Settings") -> dict[str, Any]:
    from coterie.settings import keys

    return {
        "settings": {
            name: {
                "value": _value(settings, name),
                "layer": settings.origins[name].layer,
                "file": settings.origins[name].file,
                "line": settings.origins[name].line,
            }
            for name in keys()
        },
        "unknown": settings.unknown,
    }
