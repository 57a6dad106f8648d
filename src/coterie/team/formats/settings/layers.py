"""Resolve the settings of a run from their layers.

Later layers win: the defaults, the user's file, the project's file, the user's override for the preset, the
repository's override, the user's file for the project, the command line. `autoloops.conf` is read only if a project has
no `autoloops.toml`. The origin of each value is recorded.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from coterie.base import files
from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, is_within_two_letters, warning
from coterie.team.formats import bounds
from coterie.team.formats.settings.conversion import InvalidSetting, convert
from coterie.team.formats.settings.grammar import Assignment, read
from coterie.team.formats.settings.keys import DEFAULT, SECTIONS, Origin, Settings, keys
from coterie.team.formats.settings_locations import OF_OPERATOR, USER_PROJECT, is_in, layer_files
from coterie.team.options.agents import GUARDS, NO_GUARD, is_table

COMMAND_LINE = "command line"
_IGNORED = "this file did not exist when the run began, so it does not read it"
_IGNORED_HINT = "it counts for later runs; `coterie resume RUN --reload FOLDER` makes it count for this one"

_HARMLESS = ("stage", "progress", "health", "parallel.aggregate")
"""Unknown tables that restrict nothing; any other may be meant to."""
# fmt: off
_EXAMPLES = {
    "whole": "3", "number": "0.5", "flag": "true", "duration": '"15m"', "ms": "60000", "list": '["a", "b"]',
    "commands": '[["make", "test"]]',
}
# fmt: on
_APART = "run in another directory, or set XDG_CONFIG_HOME to one outside of it"

GIVEN = "the command line"
"""The file in diagnostics of values from the command line."""


def resolve(
    project: Path | None,
    *,
    work_dir: Path,
    env: Mapping[str, str],
    preset: str = "",
    overrides: Sequence[str] = (),
    grammars: Mapping[str, str] | None = None,
) -> tuple[Settings, list[Diagnostic]]:
    """Resolve the settings of a run in *project*, with diagnostics. An invalid value leaves that of the layer below.

    Args:
        project: The project's folder; None: use only the other layers.
        work_dir: The working directory of the run; its git repository may have an override.
        env: The environment: `AUTOLOOP_CONFIG`, `XDG_CONFIG_HOME` and `HOME` locate the user's files.
        preset: The preset's name; by default the project's folder name.
        overrides: Settings from the command line, each as `key=value`.
        grammars: The grammars of the files that were read before, which are used again; a file that is not among them
            is not read. None: nothing was read before.
    """
    job = _Job(grammars or {})
    for layer, path in layer_files(project, work_dir, env, preset, grammars):
        if grammars is None or str(path) in grammars:
            job.read(layer, path)
        elif files.exists(path) and layer != USER_PROJECT:  # what a run may write there, it knows
            job.found.append(replace(warning("file-ignored", _IGNORED, hint=_IGNORED_HINT), file=str(path)))
    for text in overrides:
        job.override(text)
    if (named := env.get("AUTOLOOP_CONFIG")) and not files.exists(Path(named)):
        hint = "correct or unset AUTOLOOP_CONFIG"
        job.found.append(warning("no-such-config", f"AUTOLOOP_CONFIG names {named!r}, which does not exist", hint=hint))
    return job.settings(), job.found


def operators(work_dir: Path, env: Mapping[str, str], preset: str = "") -> tuple[Settings, list[Diagnostic]]:
    """What the user's own files say for a run in *work_dir*, with diagnostics.

    Those in *work_dir* itself, as when that is the home, are left out: the run's agents may write there.
    """
    job = _Job({})
    for layer, path in layer_files(None, work_dir, env, preset):
        if layer in OF_OPERATOR and not is_in(path, work_dir):
            job.read(layer, path)
        elif layer in OF_OPERATOR and files.exists(path):
            found = warning("file-ignored", "your settings lie where agents work, and are not read", hint=_APART)
            job.found.append(replace(found, file=str(path)))
    return job.settings(), job.found


class _Job:
    """One call of `resolve`."""

    def __init__(self, grammars: Mapping[str, str]) -> None:
        self.found: list[Diagnostic] = []
        self._known = grammars
        self._grammars: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._origins = {name: Origin(DEFAULT) for name in keys()}
        self._values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        self._unknown: dict[str, Any] = {}
        self._tables: set[tuple[str, str]] = set()  # of each file that were reported

    def read(self, layer: str, path: Path) -> None:
        """Apply the file at *path*, if it exists."""
        file = str(path)
        try:
            text = bounds.read_bytes(path).decode()
            bounds.check_obeyed(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, UnicodeDecodeError) as failure:
            reason = failure.strerror if isinstance(failure, OSError) else "it is not UTF-8 text"
            found = error("unreadable-file", f"{file!r} cannot be read: {reason or failure}")
            self.found.append(replace(found, file=file))
            return
        self._texts[file] = text
        reading = read(text, self._known.get(file, ""))
        self._grammars[file] = reading.grammar
        self.found += [replace(each, file=file, text=text) for each in reading.diagnostics]
        for entry in reading.entries:
            self._take(entry, layer, file)

    def override(self, text: str) -> None:
        """Apply a setting of the command line."""
        name, equals, value = text.partition("=")
        if not equals:
            self.found.append(error("bad-override", f"{text!r} is not a setting", hint="write key=value"))
            return
        raw = value.strip()
        if name.endswith(":"):
            try:
                entry = Assignment(name[:-1].strip(), bounds.load_json(raw))
            except (ValueError, RecursionError) as why:
                hint = "KEY:= takes JSON; write KEY=text for a text"
                self._report(error("bad-override", f"the value in {text!r} is not JSON: {why}", hint=hint), "")
                return
            self._take(entry, COMMAND_LINE, "")
            return
        reading = read(f"{name.strip()} = {raw}", "lines")
        key = keys().get(name.strip())
        if not reading.ok and key is not None and key.type != "text":  # a text may be anything
            self.found += [replace(each, file=GIVEN, span=None) for each in reading.diagnostics]
            return
        entries = reading.entries or (Assignment(name.strip(), raw, None, raw),)
        for entry in entries:
            self._take(replace(entry, span=None), COMMAND_LINE, "")

    def _take(self, entry: Assignment, layer: str, file: str) -> None:
        key = keys().get(entry.key)
        if key is None:
            self._keep(entry, layer, file)
            return
        if key.meaning.personal and layer not in OF_OPERATOR:
            hint = f"`coterie config set {key.name}=… --user` sets it"
            self._report(error("bad-setting", f"{key.name} counts only in your own files", entry.span, hint), file)
            return
        try:
            value = convert(key, entry.value, entry.raw)
        except InvalidSetting as fault:
            hint = f"write {key.name} = {_EXAMPLES.get(key.type) or json.dumps(key.default)}"
            self._report(error("bad-setting", str(fault), entry.span, hint), file)
            return
        self._values[key.section][key.attribute] = value
        self._origins[key.name] = Origin(layer, file, entry.span.line if entry.span else 0)

    def _keep(self, entry: Assignment, layer: str, file: str) -> None:
        """Keep and report an unknown setting."""
        self._unknown[entry.key] = entry.value
        if entry.key in SECTIONS:
            message = f"{entry.key!r} is a table of settings, not a single setting"
            self._report(error("bad-setting", message, entry.span, f"write {entry.key}.NAME = …"), file)
            return
        section, *names = entry.key.split(".")
        is_known = section in SECTIONS
        table = ".".join((section, *names[:is_known]))
        is_guard = not {section, *names}.isdisjoint(GUARDS)
        in_table = len(names) > is_known or is_table(entry.value)
        if is_guard or (in_table and table not in _HARMLESS):
            if in_table and (file, table) in self._tables:
                return
            self._tables.add((file, table))
            is_close = not is_known and is_within_two_letters(section, SECTIONS)
            is_soft = layer in OF_OPERATOR and not is_close
            report, code = (warning, "unknown-setting") if is_soft else (error, "bad-setting")
            fault = f"{entry.key!r} is a guard that coterie does not have" if is_guard else f"unknown table {table!r}"
            hint = did_you_mean(section, SECTIONS) if is_close else NO_GUARD
            self._report(report(code, fault, entry.span, hint), file)
            return
        hint = did_you_mean(entry.key, keys()) or ("it is kept but has no effect" if file else "it has no effect")
        self._report(warning("unknown-setting", f"unknown setting {entry.key!r}", entry.span, hint), file)

    def _report(self, found: Diagnostic, file: str) -> None:
        self.found.append(replace(found, file=file or GIVEN, text=self._texts.get(file, "")))

    def settings(self) -> Settings:
        """The resolved settings."""
        sections = {name: kind(**self._values[name]) for name, kind in SECTIONS.items()}
        return Settings(**cast(Any, sections), origins=self._origins, unknown=self._unknown, grammars=self._grammars)


def as_span(origin: Origin) -> Span | None:
    """The span of *origin*, for a diagnostic about its value."""
    return Span(origin.line, 1) if origin.line else None
