"""Plain command lines mean without the option parser what they mean with it."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.cli import app, argv
from coterie.cli.parameters import bound, plain_call

PLACES = dict(app.COMMANDS) | {
    f"{group} {name}".strip(): place for group, (_, commands) in app.GROUPS.items() for name, place in commands.items()
}
PLAIN = (
    "run",
    "run team.at",
    "run team.at write it",
    "run team.at - ",
    "run team.at --json --rehearse",
    "run team.at --rehearse script.json -b model",
    "run --input a=1 --input b=2 team.at",
    "run team.at --state-dir=there --no-park",
    "run loop --no-worktree --iterations 3",
    "run team.at -- -x",
    "fork last --set a=1 --set b=2",
    "inspect last why a#1",
    "runs",
    "runs --all --json",
    "runs rm a b",
    "topology validate a.at b.at --fix",
    "control guide last go on",
    "worktree list",
)
"""Command lines that users type most."""
OTHER = (
    "run team.at --max-turns none",
    "run team.at --rehea",
    "run team.at --json=1",
    "run team.at --state-dir a --state-dir b",
    "run team.at -b",
    "run team.at -b -x",
    "run team.at --log-format json",
    "resume last --add-iterations 3",
    "run --nope",
    "resume",
    "runs --limit 0",
    "runs prune",
    "runs more words",
    "diff a.at",
    "validate -h",
    "run team.at --add-iterations three",
)
"""Command lines that take the option parser: for a mistake, or since it checks a value."""


def called(line: str) -> tuple[str, list[str]]:
    """The command that *line* calls, and the words after its name."""
    words = argv.prepare(line.split())
    name = " ".join(words[:2]) if " ".join(words[:2]) in PLACES else words[0]
    return name, words[len(name.split()) :]


@bundle("line", PLAIN, ids=PLAIN)
def test_a_plain_call_means_the_same_with_and_without_the_parser(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function gets equal arguments."""
    name, words = called(line)
    one, got = app.load(PLACES[name]), list[dict[str, Any]]()

    def take(**options: Any) -> int:
        got.append(options)
        return 0

    plain = plain_call(one, words)
    assert plain is not None
    take.__doc__, take.__signature__ = one.__doc__, inspect.signature(one)  # type: ignore[attr-defined]
    monkeypatch.setattr(app, "load", lambda place: take if place == PLACES[name] else one)
    command = app.command(argv.prepare(line.split())[:2])
    command(args=argv.prepare(line.split()), prog_name="coterie", standalone_mode=False)
    defaults = bound(one, {})

    assert {**defaults, **plain} == {key: value for key, value in got[0].items() if key in {**defaults, **plain}}
    rest = {key: value for key, value in got[0].items() if key not in plain}
    assert all(not value or value == parameter(one, key) for key, value in rest.items())


def parameter(command: Any, name: str) -> Any:
    """The default of the parameter *name*."""
    return inspect.signature(command).parameters[name].default


@bundle("line", OTHER, ids=OTHER)
def test_any_other_call_is_left_to_the_parser(line: str) -> None:
    """It knows what is wrong."""
    name, words = called(line)

    assert plain_call(app.load(PLACES[name]), words) is None


def test_help_shows_first_what_fits_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options of loops for a loop, those of systems for a system, and neither for a file."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "autoloops.toml").write_text('backend.kind = "scripted"\n')
    (tmp_path / "topology.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    first = {}
    for target in ("team.at", "loop", "topology.yaml"):
        assert app.main(["run", target, "-h"]) == 0
        options = capsys.readouterr().out.split("Options:\n")[1]
        first[target] = options.split()[0]

    assert first == {"team.at": "--input", "loop": "-i,", "topology.yaml": "-t,"}
