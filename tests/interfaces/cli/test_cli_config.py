"""`coterie config`: what the settings are, where they came from, and changing one."""

import json
from pathlib import Path

import pytest
from command_line import Place


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, so that the user's own do not count."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "AUTOLOOP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_show_says_what_came_of_all_layers(place: Place, home: Path) -> None:
    """With the layer, the file and the line of each value."""
    (place.folder / "autoloops.toml").write_text("# mine\nevent_loop.max_iterations = 7\nbackend.args = ['a b']\n")
    (home / ".config/autoloop").mkdir(parents=True)
    (home / ".config/autoloop/config.toml").write_text("backend.command = 'pi'\nevent_loop.max_iterations = 5\n")

    text = place.look("config", "show", "--explain", "--set", "event_loop.max_runtime=90m").out

    assert "event_loop.max_iterations = 7" in text
    assert "# project (autoloops.toml:2)" in text
    assert 'backend.args = ["a b"]' in text
    assert f"# user ({home}/.config/autoloop/config.toml:1)" in text
    assert "event_loop.max_runtime = 5400000" in text
    assert "# command line" in text
    assert 'backend.agent = ""' in text


def test_show_as_json(place: Place) -> None:
    """The same values: what is called `…_ms` is milliseconds here, too."""
    found = json.loads(place.look("config", "show", "--json").out)

    assert found["settings"]["event_loop.max_iterations"] == {"value": 3, "layer": "default", "file": "", "line": 0}
    assert found["settings"]["backend.timeout_ms"]["value"] == 300_000
    assert found["unknown"] == {}


def test_show_writes_tables_as_what_they_are(place: Place) -> None:
    """Defect K: they were all the same word. What nobody knows is shown by its whole name."""
    (place.folder / "autoloops.toml").write_text("[stage.own]\nx = {y = 1}\n[[health]]\na = 2020-01-01\n")
    said = place.look("config", "show").out

    assert "stage.own.x.y = 1" in said
    assert 'health = [{"a": "2020-01-01"}]' in said


def test_show_tells_what_is_wrong(place: Place) -> None:
    """The line is shown, and the status says that a run would not start."""
    (place.folder / "autoloops.toml").write_text("event_loop.max_iterations = 'many'\n")

    said = place.look("config", "show", status=1)

    assert (
        "autoloops.toml:1:1: error[bad-setting]: event_loop.max_iterations must be a whole number, not 'many'"
        in said.err
    )
    assert "event_loop.max_iterations = 3" in said.out


def test_set_show_unset(place: Place) -> None:
    """What is set for a preset counts for it, until it is unset."""
    override = ("--repo", "--preset", "autocode")
    said = place.look("config", "set", *override, "event_loop.max_iterations=250").out
    assert said == f"set event_loop.max_iterations = 250 in {place.folder}/.autoloop/overrides/autocode.toml\n"

    shown = place.look("config", "show", "--preset", "autocode", "--explain").out
    assert "event_loop.max_iterations = 250" in shown
    assert "# repo override" in shown
    assert "(missing)" in place.look("config", "path", "--preset", "autocode").out

    assert place.look("config", "unset", *override, "event_loop.max_iterations").out.startswith("unset ")
    assert "event_loop.max_iterations = 100" in place.look("config", "show", "--preset", "autocode").out


def test_your_own_settings_are_for_all_projects_or_for_one(
    place: Place, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither lies in the project, and those for one come last."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
    place.look("config", "set", "--user", "notify.desktop=true")
    place.look("config", "set", "--here", "notify.desktop=false")
    shown = place.look("config", "show", "--explain").out
    assert "notify.desktop = false" in shown
    assert "# user project (" in shown
    layers = [line.split("  ")[0] for line in place.look("config", "path").out.splitlines()]
    assert layers[0] == "user"
    assert layers[-1] == "user project"
    assert place.look("config", "unset", "--here", "notify.desktop").out.startswith("unset ")
    assert "notify.desktop = true" in place.look("config", "show").out
    assert not list(place.folder.glob("*.toml"))
    assert not (place.folder / ".autoloop").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "--preset", "p", "backend.command=x"], "choose what to change: --user, --here, or --repo"),
        (["set", "--repo", "backend.command=x"], "--preset NAME"),
        (["set", "--user", "--here", "backend.command=x"], "choose what to change"),
        (["set", "--user", "--preset", "p", "backend.command"], "is not KEY=VALUE"),
        (["set", "--user", "--preset", "p", "backend.comand=x"], "did you mean 'backend.command'"),
        (["set", "--user", "--preset", "p", "review.enabled=perhaps"], "review.enabled must be true or false"),
        (["unset", "--repo", "--preset", "p", "nothing"], "unknown setting 'nothing'"),
    ],
)
def test_what_cannot_be_set_is_one_clear_error(place: Place, home: Path, words: list[str], message: str) -> None:
    """Status 2, and no file was made."""
    said = place.look("config", *words, status=2)

    assert message in said.err
    assert not (home / ".config").exists()
