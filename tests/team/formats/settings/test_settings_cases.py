"""What an earlier system made of settings, and where this one decides otherwise."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_cases import cases

from coterie.team.formats.settings import Settings, keys, resolve
from coterie.team.formats.settings.conversion import InvalidSetting, convert, list_of
from coterie.team.formats.settings.durations import MOST, seconds

TYPED = "A value of the wrong type is a diagnostic with file:line, never a silent default (spec, Configuration)."
LINES = "If that fails, it is read by the page's line grammar, with a warning (spec, Configuration)."
TOML_VALUES = "The line grammar reads every TOML value it can: quotes, escapes (spec, Configuration)."
LISTS = "Lists stay lists (spec, Configuration)."
FLAGS = "Booleans take true/false, 1/0, these as strings, and an empty text as false (spec, Configuration)."

OTHERWISE = {
    "string_list-011": LISTS,
    "config_text-009": LINES,
    "config_text-013": LINES,
    "config_text-022": TYPED,  # -5 iterations
    "config_text_lenient-015": TOML_VALUES,
    "config_text_lenient-016": "Bare strings may be empty; the earlier default was another (page, Keys).",
    "config_text_lenient-017": "A value that is written wins over a default (page, Precedence).",
    "config_text_lenient-020": LISTS,
    "config_text_lenient-033": TOML_VALUES,
    "config_layers-014": "Not a key of the page: kept, with a warning (spec, Configuration).",
    "int_float-006": TYPED,
    "int_float-009": TYPED,
    "int_float-011": TYPED,
    "int_float-013": "Numbers accept numeric strings, as TOML writes them (spec, Configuration).",
}
"""The cases that are not followed, by id, with the sentence that decides."""

LATER = {"parallel.aggregate.mode"}
"""Keys of the earlier system that are no settings of the page."""


def followed(area: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases(area) if case["id"] not in OTHERWISE]


def as_text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case tuple() | list():
            return ",".join(str(item) for item in value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def probed(settings: Settings, name: str) -> str | None:
    """The setting *name* as the earlier system shows it: a text; durations in milliseconds."""
    if name not in keys():
        return as_text(settings.unknown.get(name))
    value = settings.value(name)
    if keys()[name].type in ("ms", "duration"):
        value = value * 1000
    return as_text(value)


def project(folder: Path, text: str, name: str = "autoloops.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def settle(folder: Path, tmp_path: Path, **more: Any) -> Settings:
    settings, _ = resolve(folder, work_dir=tmp_path, env={"HOME": str(tmp_path / "home")}, **more)
    return settings


@bundle("case", followed("duration"))
def test_durations(case: dict[str, Any]) -> None:
    """The same texts are durations, and mean the same; none is longer than the longest."""
    expected = case["parsed_ms"]
    assert seconds(case["input"]) == (None if expected is None else pytest.approx(min(expected / 1000, MOST)))


@bundle("case", followed("string_list"))
def test_lists_written_as_texts(case: dict[str, Any]) -> None:
    """A list key takes the CSV form."""
    assert list(list_of(case["input"])) == case["get_list"]


@bundle("case", followed("int_float"))
def test_numbers_written_as_texts(case: dict[str, Any]) -> None:
    """A number is one, or it is a finding where the earlier system fell back to a default (42)."""
    key = keys()["event_loop.max_iterations"]
    if case["get_int"] == 42:
        with pytest.raises(InvalidSetting, match="a whole number"):
            convert(key, case["input"])
    else:
        assert convert(key, case["input"]) == case["get_int"]


@bundle("case", followed("truthy"))
def test_flags_written_as_texts(case: dict[str, Any]) -> None:
    """What stands for true and false does so for every flag; anything else is a finding."""
    key = keys()["review.enabled"]
    if case["input"] in ("true", "false", "1", "0", ""):
        assert convert(key, case["input"]) == case["truthy_setting"]
    else:
        with pytest.raises(InvalidSetting, match="true or false"):
            convert(key, case["input"])


@bundle("case", [*followed("config_text"), *followed("config_text_lenient")])
def test_texts_of_settings(case: dict[str, Any], tmp_path: Path) -> None:
    """The values of a file, whichever grammar reads it; where nothing is said the defaults may differ."""
    settings = settle(project(tmp_path / "project", case["toml"]), tmp_path)
    said = {name for name, origin in settings.origins.items() if origin.layer == "project"} | settings.unknown.keys()
    for name, value in case["values"].items():
        if name in said and value != "[object Object]" and name != "core.journal_file":
            assert probed(settings, name) == value, name
    if "event_loop.required_events" in said:
        assert list(settings.event_loop.required_events) == case["required_events"]
    if "backend.args" in said:
        assert list(settings.backend.args or ()) == case["args"]
    if (journal := case.get("journal_path")) is not None:
        assert Path(settings.path("journal")).name == Path(journal).name


@bundle("case", followed("config_layers"))
def test_layers(case: dict[str, Any], tmp_path: Path) -> None:
    """Who has the last word, and that it is said who had."""
    folder = tmp_path / "autocode"
    folder.mkdir()
    (tmp_path / ".git").mkdir()
    places = {
        "user": tmp_path / "home/.config/autoloop/config.toml",
        "toml": folder / "autoloops.toml",
        "conf": folder / "autoloops.conf",
        "user_override": tmp_path / "home/.config/autoloop/overrides/autocode.toml",
        "repo_override": tmp_path / ".autoloop/overrides/autocode.toml",
    }
    overrides: list[str] = []
    for layer, said in case["layers"].items():
        if layer == "cli":
            overrides = [f"{section}.{name}={value}" for section, all_ in said.items() for name, value in all_.items()]
        else:
            places[layer].parent.mkdir(parents=True, exist_ok=True)
            places[layer].write_text(said)

    settings = settle(folder, tmp_path, overrides=overrides)

    for name, value in case["values"].items():
        if name not in LATER:
            assert probed(settings, name) == value, name
            if name in keys() and (layer := case["provenance"][name]) is not None:
                assert settings.origins[name].layer == {"CLI override": "command line"}.get(layer, layer)


def test_defaults(tmp_path: Path) -> None:
    """The defaults are those of the page."""
    [case] = cases("config_defaults")
    settings = settle(tmp_path / "none", tmp_path)
    defaults = {
        f"{section}.{name}": value for section, all_ in case["defaults"].items() for name, value in all_.items()
    }
    shared = {name: value for name, value in defaults.items() if name in keys()}
    shared["core.memory_file"] = ""  # unset files lie in the state directory (spec, Configuration)
    assert {name: probed(settings, name) for name in shared} == shared
    assert settings.path("memory") == ".autoloop/memory.jsonl"
    assert len(shared) > 15
