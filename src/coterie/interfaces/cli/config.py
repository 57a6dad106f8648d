"""`coterie config …`: show and change the settings of loops."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import print_result, report, say
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.team.formats.settings import Settings

Project = Annotated[Path | None, Opt("--project DIR", "The project's folder (the current one).")]
Preset = Annotated[str, Opt("--preset P", "The preset whose overrides apply.")]


class ChangedSettings(Struct, frozen=True, kw_only=True):
    """The file of settings that a command changes."""

    preset: Preset = ""
    user: Annotated[bool, Opt("--user", "Change your own settings, or with --preset your override of it.")] = False
    here: Annotated[bool, Opt("--here", "Change your own settings for the project of this directory.")] = False
    repo: Annotated[bool, Opt("--repo", "Change this repository's override of the preset.")] = False

    @property
    def path(self) -> Path:
        """The file; an agent may not change it.

        Raises:
            UsageError: If the options name none, or several.
        """
        from coterie.errors import UsageError
        from coterie.execution.runs.authority import check_operator
        from coterie.team.formats.settings_locations import override_file, own_file, user_file

        check_operator()
        if self.user + self.here + self.repo != 1:
            raise UsageError("choose what to change: --user, --here, or --repo with --preset NAME")
        if self.here or (self.user and not self.preset):
            return own_file(Path.cwd(), os.environ) if self.here else user_file(os.environ)
        if not self.preset or "/" in self.preset:
            raise UsageError("name the preset: --preset NAME")
        return override_file("user" if self.user else "repo", self.preset, Path.cwd(), os.environ)


def show(
    project: Project = None,
    preset: Preset = "",
    overrides: Annotated[list[str] | None, Opt("--set K=V", "A setting, as given to a run. Repeatable.")] = None,
    explain: Annotated[bool, Opt("--explain", "Show the origin of each value: layer, file, line.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the settings that a run would use.

    Reports errors in the files, with exit status 1.
    """
    from coterie.errors import CoterieError
    from coterie.team.formats.settings import resolve

    if project is not None and not project.is_dir():
        raise CoterieError(f"there is no project folder {str(project)!r}")
    _check_preset(preset)
    folder = project or _preset_folder(preset) or Path()
    settings, found = resolve(folder, work_dir=Path.cwd(), env=os.environ, preset=preset, overrides=overrides or ())
    for diagnostic in found:
        report([diagnostic], _text(diagnostic.file))
    print_result(as_json, _as_data(settings), lambda: "\n".join(_lines(settings, explain)))
    return int(any(diagnostic.is_error for diagnostic in found))


def set_(setting: Annotated[str, Arg("KEY=VALUE", "The setting and its value.")], *, file: ChangedSettings) -> int:
    """Set a value in your own settings, or in an override of a preset."""
    from coterie.errors import UsageError
    from coterie.team.formats.settings.edit import set_value

    name, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"{setting!r} is not KEY=VALUE; write coterie config set {setting}=VALUE")
    path = file.path
    is_new = not path.exists()
    set_value(path, name.strip(), value.strip())
    say(f"set {name.strip()} = {value.strip()} in {path}")
    if not is_new:  # a loop does not read a file that did not exist when it began, and says so
        _tell_loops(name.strip())
    return 0


def unset(name: Annotated[str, Arg("KEY", "The setting.")], *, file: ChangedSettings) -> int:
    """Remove a value from your own settings, or from an override of a preset."""
    from coterie.team.formats.settings.edit import unset_value

    path = file.path
    if not unset_value(path, name):
        say(f"{name} is not set in {path}")
        return 0
    say(f"unset {name} in {path}")
    _tell_loops(name)
    return 0


def trust(
    file: Annotated[Path, Arg("PATH", "The file, or the folder of files, that an agent could have written.")],
) -> int:
    """Let a file that an agent could have written count as it is now; a later change needs this again."""
    from coterie.base import agent_writes
    from coterie.errors import UsageError
    from coterie.execution.runs.authority import check_operator
    from coterie.history.views.words import plural
    from coterie.team.formats import bounds
    from coterie.team.formats.settings import read

    check_operator()
    who = agent_writes.writer_of(file)
    try:
        is_read = file.suffix in (".toml", ".conf") and not file.is_dir()
        content = bounds.read_bytes(file) if is_read else None
        text = (content or b"").decode()
        trusted = agent_writes.trust(file, content)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    for entry in read(text).entries:
        say(f"it sets {entry.key} = {entry.value!r}")
    if file.is_dir():
        for one in trusted:
            say(f"{one} counts as it is now")
        say(f"{plural(len(trusted), 'file')} in {file} that an agent could have written")
        return 0
    say(f"{file} counts as it is now" + (f"; attempt {who} could have written it" if who else ""))
    return 0


def _tell_loops(name: str) -> None:
    """Tell the running loops of this directory that an operator has changed the setting *name*, if it protects."""
    from coterie.execution.runs import control, index, messages
    from coterie.execution.runs.repository import run_in
    from coterie.team.formats.settings.keys import protecting

    for folder in index.living(Path(index.STATE_DIR)) if name in protecting() else ():
        runs, run = run_in(folder)
        if control.send(runs, run, messages.changed_setting(name)).status == "accepted":
            say(f"run {run} takes it when it next reads its files")


def path(project: Project = None, preset: Preset = "", as_json: AsJson = False) -> int:
    """Show the path of each layer's file, lowest first, and whether it exists."""
    from coterie.team.formats.settings_locations import layer_files

    folder = project or _preset_folder(preset) or Path()
    layers = list(layer_files(folder, Path.cwd(), os.environ, preset))
    width = max(len(layer) for layer, _ in layers)
    print_result(
        as_json,
        [{"layer": layer, "path": str(file), "exists": file.is_file()} for layer, file in layers],
        lambda: "\n".join(f"{layer:{width}}  {file}{'' if file.is_file() else ' (missing)'}" for layer, file in layers),
    )
    return 0


def _check_preset(preset: str) -> None:
    """Raise an error if *preset* names no preset and no overrides."""
    from coterie.base.diagnostics import did_you_mean
    from coterie.errors import CoterieError
    from coterie.team.formats.settings_locations import override_file
    from coterie.team.planning import presets

    if not preset or "/" in preset or presets.is_preset(preset):
        return
    if not any(override_file(scope, preset, Path.cwd(), os.environ).is_file() for scope in ("user", "repo")):
        hint = did_you_mean(preset, presets.names()) or "`coterie presets` lists them"
        raise CoterieError(f"there is no preset {preset!r}; {hint}")


def _preset_folder(preset: str) -> Path | None:
    """Return the folder of a preset that comes with coterie."""
    from coterie.team.planning import presets

    return presets.find(preset) if presets.is_preset(preset) else None


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _lines(settings: "Settings", explain: bool) -> list[str]:
    from coterie.interfaces.cli.text.words import as_json
    from coterie.team.formats.settings import keys

    values = {name: _value(settings, name) for name in keys()} | dict(settings.unknown)
    shown = {name: f"{name} = {as_json(value) if value is not None else '(unset)'}" for name, value in values.items()}
    if not explain:
        return list(shown.values())
    width = min(60, max(map(len, shown.values())))
    return [f"{line:{width}}  # {settings.origins.get(name, 'unknown, no effect')}" for name, line in shown.items()]


def _value(settings: "Settings", name: str) -> Any:
    """Return the value of a setting as it is written in a file, with times in milliseconds."""
    from coterie.team.formats.settings import keys

    value: Any = settings.value(name)
    return round(value * 1000) if value is not None and keys()[name].type in ("ms", "duration") else value


def _as_data(settings: "Settings") -> dict[str, Any]:
    from coterie.team.formats.settings import keys

    return {
        "settings": {
            name: {"value": _value(settings, name), "layer": origin.layer, "file": origin.file, "line": origin.line}
            for name in keys()
            for origin in [settings.origins[name]]
        },
        "unknown": settings.unknown,
    }
