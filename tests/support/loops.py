"""Folders of loops for tests."""

from collections.abc import Mapping
from pathlib import Path

from coterie.base.diagnostics import Diagnostic
from coterie.team.planning.loop import LoopGiven, LoopPlan
from coterie.team.planning.loops import plan_folder
from coterie.team.planning.plan import Plan

TWO = """\
name = "pair"

[[role]]
id = "writer"
emits = ["draft.ready"]
prompt = "You write."

[[role]]
id = "reader"
emits = ["draft.rejected", "task.complete"]
prompt_file = "roles/reader.md"

[handoff]
"loop.start" = ["writer"]
"draft.ready" = ["reader"]
"draft.rejected" = ["writer"]
"""
"""Two roles that hand work to each other."""


def folder(path: Path, files: Mapping[str, str]) -> Path:
    """The folder *path*, with *files* in it."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    return path


def pair(path: Path, settings: str = 'backend.command = "agent"\n', **files: str) -> Path:
    """A loop of two roles in *path*; names of further *files* have `__` for `/` and `_` for `.`."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    usual = {"topology.toml": TWO, "roles/reader.md": "You read.\n", "autoloops.toml": settings}
    return folder(path, {**usual, **named})


def planned(path: Path, **given: object) -> tuple[Plan | None, list[Diagnostic]]:
    """What comes of the loop in *path*, in a world of its own: no settings of the user's."""
    env = {"HOME": str(path.parent / "home")}
    return plan_folder(path, given=LoopGiven(**given), work_dir=path.parent, env=env)  # type: ignore[arg-type]


def plan(path: Path, **given: object) -> Plan:
    """The plan of the loop in *path*, which is in order."""
    made, found = planned(path, **given)
    assert made is not None, [each.render() for each in found]
    return made


def loop_of(made: Plan) -> LoopPlan:
    """Its coordination."""
    assert isinstance(made.coordination, LoopPlan)
    return made.coordination
