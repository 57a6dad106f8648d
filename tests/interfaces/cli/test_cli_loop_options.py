"""The options of `coterie run` for loops, and what the earlier system made of the same words."""

from pathlib import Path
from typing import Any

import pytest
from loop_cases import cases
from msgspec.structs import fields

from coterie.errors import UsageError
from coterie.interfaces.cli import app
from coterie.interfaces.cli.loop_options import LoopOptions, home, loop_given
from coterie.interfaces.cli.named_command import find_command
from coterie.interfaces.cli.parser import parse
from coterie.team.planning.loop import LoopGiven, LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan

DISAGREE = {
    "run_args-012": "`run` without a target takes topology.yaml of the directory (the page of supervised systems)",
    "run_args-008": "Extra backend arguments can be passed after -- on the command line (configuration page)",
    "run_args-010": "the page names the preset first; --preset is no option, and unknown options are errors",
    "run_args-016": "a work tree is kept by worktree.cleanup = never (page); --keep-worktree is no option",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the folder of a loop, `autocode`, and a file of a team, `team.at`."""
    (tmp_path / "autocode").mkdir()
    (tmp_path / "autocode" / "autoloops.toml").write_text('backend.kind = "scripted"\n')
    (tmp_path / "team.at").write_text("topology t { agent a {} }")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(*words: str) -> dict[str, Any]:
    """The values of the parameters of `coterie run` for *words*."""
    command, rest = find_command(["run", *words])
    return {one.name: one.default for one in command.parameters} | parse(command, rest)


def given(words: dict[str, Any]) -> LoopGiven:
    """What is said of the run that was called so."""
    options = LoopOptions(**{field.name: words[field.name] for field in fields(LoopOptions)})
    return loop_given(words["target"], options, words["backend"], words["params"] or ())


def overrides(tree: dict[str, Any], prefix: str = "") -> list[str]:
    """A tree of settings as the texts that set them."""
    flat = []
    for name, value in tree.items():
        flat += overrides(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}={value}"]
    return flat


@pytest.mark.parametrize(
    "case", [one for one in cases("run_args") if one["id"] not in DISAGREE], ids=lambda one: one["id"]
)
def test_words_mean_what_they_meant_in_the_earlier_system(case: dict[str, Any], here: Path) -> None:
    """Where the pages do not decide otherwise."""
    wanted = case["parsed"]
    if wanted["usage_error"]:
        with pytest.raises(UsageError):
            given(parsed(*case["argv"]))
        return
    words = parsed(*case["argv"])
    said = given(words)

    assert words["target"] == wanted["preset"]
    assert " ".join(words["prompt"] or ()) == (wanted["prompt"] or "")
    assert list(said.overrides) == overrides(wanted["config_override"])
    assert list(said.profiles) == wanted["profiles"]
    assert (words["worktree"] or (False if words["no_worktree"] else None)) == wanted["worktree"]


def test_where_the_pages_decide_otherwise(here: Path) -> None:
    """See DISAGREE for the sentence."""
    by_id = {one["id"]: one["argv"] for one in cases("run_args")}
    behind = parsed(*by_id["run_args-008"])

    assert (list(behind["prompt"] or ()), given(behind).args, given(behind).backend) == ([], ("--model", "x"), "pi")
    for unknown in ("run_args-010", "run_args-016"):
        with pytest.raises(UsageError, match="has no option"):
            parsed(*by_id[unknown])


def test_options_are_settings_and_have_the_last_word(here: Path) -> None:
    """They stand behind what --set says; a work tree that is refused is refused by both of its keys."""
    said = given(
        parsed(
            *("autocode", "--set", "event_loop.max_iterations=3", "--iterations", "5", "--no-worktree", "-v"),
            *("--merge-strategy", "rebase", "--profile", "repo:a", "--profile", "user:b", "--no-default-profiles"),
            *("--state-dir", "kept"),
        )
    )

    assert said.overrides == (
        "event_loop.max_iterations=3",
        "event_loop.max_iterations=5",
        "worktree.enabled=false",
        "isolation.enabled=false",
        "worktree.merge_strategy=rebase",
        "core.log_level=debug",
        "core.state_dir=kept",
    )
    assert (said.profiles, said.default_profiles) == (("repo:a", "user:b"), False)
    assert given(parsed("autocode", "--worktree")).overrides == ("worktree.enabled=true",)


@pytest.mark.parametrize("words", [("--worktree", "--no-worktree"), ("--no-worktree", "--worktree")])
def test_a_work_tree_and_none_contradict_each_other(words: tuple[str, ...], here: Path) -> None:
    """In either order."""
    with pytest.raises(UsageError, match="--worktree and --no-worktree contradict each other: give one of them"):
        given(parsed("autocode", *words))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("event_lop.max_iterations=5", "unknown table 'event_lop'; did you mean 'event_loop'?"),
        ("event_loop.max_iterations=five", "must be a whole number"),
        ("review.enabled:=yes", "is not JSON"),
        ("backend.kind=comand", "unknown kind of backend"),
    ],
)
def test_a_wrong_setting_is_a_wrong_call(
    setting: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, before anything starts: a mistyped key would have no effect, or switch a gate off."""
    assert app.main(["run", "autocode", "go", "--set", setting]) == 2
    assert message in capsys.readouterr().err
    assert not (here / ".autoloop").exists()


@pytest.mark.parametrize(
    "words", [["-i", "3"], ["--profile", "repo:a"], ["--no-default-profiles"], ["--", "x"], ["-v"]]
)
def test_an_option_of_loops_is_refused_for_a_file(words: list[str], here: Path) -> None:
    """Nothing that was said is dropped in silence."""
    with pytest.raises(UsageError, match="only for loops"):
        given(parsed("team.at", *words))

    assert given(parsed("team.at", "--set", "x=1")).overrides == ("x=1",)


def test_a_loop_is_kept_where_its_settings_say() -> None:
    """Unless the command line says it; any other team lies in the usual place."""
    loop = Plan(name="l", coordination=LoopPlan(place=RunPlace(state_dir=".autoloop")), agents={})

    assert home(loop, None) == Path(".autoloop")
    assert home(loop, Path("kept")) == Path("kept")
    assert home(Plan(name="t", agents={}), None) == Path(".coterie")
    assert home(Plan(name="t", agents={}), Path("kept")) == Path("kept")
