"""A command is not started if it executes a file that an agent could have written."""

import os
import sys
from pathlib import Path

import pytest

from coterie.base import agent_writes, program_files


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the operator's programs, which agents may write."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    for name, text in {
        "notify.sh": "#!/bin/sh\n",
        "notify.py": "",
        "direct": f"#!{work}/.venv/bin/python\n",
        "by-env": "#!/usr/bin/env -S python -u\n",
        "tool/__main__.py": "",
        "alone/hook.py": "",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/site-packages/m.py": "",
        ".venv/bin/hook": "#!/bin/sh\n",
        "node_modules/p/cli.js": "#!/bin/sh\n",
        "report.md": "",
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    (work / ".venv/bin/python").symlink_to(sys.executable)
    (work / "node_modules/.bin").mkdir()
    (work / "node_modules/.bin/p").symlink_to("../p/cli.js")
    (work / "hooks").symlink_to("alone")
    return work


def agent_writes_in(work: Path, name: str) -> None:
    """Let a confined attempt change the file *name*, which may be a link."""
    mark = work.parent / "mark"
    mark.touch()
    began = mark.stat().st_ctime_ns
    while mark.stat().st_ctime_ns == began:
        os.utime(mark)
    with agent_writes.noted(work.parent / "attempt", [work], {}):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        if (work / name).is_symlink():
            target = os.readlink(work / name)
            (work / name).unlink()
            (work / name).symlink_to(target)
        else:
            (work / name).write_text((work / name).read_text() if (work / name).exists() else "")


def refused(work: Path, *argv: str) -> str:
    path = f"{work}/.venv/bin:node_modules/.bin:/usr/bin:/bin"
    return program_files.refusal(argv, work, {"PATH": path})


@pytest.mark.parametrize(
    ("argv", "written"),
    [
        (["./notify.sh"], "notify.sh"),
        (["/bin/sh", "-e", "notify.sh", "report.md"], "notify.sh"),
        (["env", "-i", "A=1", "sh", "notify.sh"], "notify.sh"),
        (["python3", "notify.py"], "notify.py"),
        (["python3", "notify.py"], "json.py"),
        (["python3", "notify.py"], "json/__init__.py"),
        (["python3", "-m", "tool"], "tool/__main__.py"),
        (["python3", "-m", "notify"], "notify.py"),
        (["python3", "-c", "import json"], "json.py"),
        (["./.venv/bin/python", "-P", "alone/hook.py"], ".venv/lib/site-packages/m.py"),
        (["python", "-P", "alone/hook.py"], ".venv/lib/site-packages/sitecustomize.py"),
        (["python", "-P", "alone/hook.py"], ".venv/bin/python"),
        (["hook"], ".venv/pyvenv.cfg"),
        (["notify"], ".venv/bin/notify"),
        (["./direct"], ".venv/lib/site-packages/m.py"),
        (["./by-env"], "json.py"),
        (["p"], "node_modules/p/lib.js"),
        (["p"], "node_modules/.bin/p"),
        (["sh", "hooks/hook.py"], "hooks"),
    ],
)
def test_a_command_that_executes_what_an_agent_could_have_written(work: Path, argv: list[str], written: str) -> None:
    """The program, its interpreter, its script or module, and the environment that they are in; trusted, it runs."""
    if argv == ["notify"]:
        (work / written).write_text("")
        (work / written).chmod(0o755)
    assert refused(work, *argv) == ""

    agent_writes_in(work, written)
    why = refused(work, *argv)
    named = work / ("hooks/hook.py" if written == "hooks" else written)
    assert f"it executes {named}, and an agent could have written it" in why
    assert f"coterie config trust {named}" in why

    agent_writes.trust(named)
    assert refused(work, *argv) == ""


@pytest.mark.parametrize(
    ("argv", "written"),
    [
        (["/bin/sh", "notify.sh", "report.md"], "report.md"),
        (["make", "test"], "Makefile"),
        (["python3", "-P", "notify.py"], "json.py"),
        (["python3", "alone/hook.py"], "json.py"),
        (["/usr/bin/env", "true"], "notify.sh"),
        (["missing"], "notify.sh"),
        (["no\0path"], "notify.sh"),
        ([], "notify.sh"),
    ],
)
def test_a_command_runs_whatever_else_an_agent_wrote(work: Path, argv: list[str], written: str) -> None:
    """What it works on, and files of other commands."""
    agent_writes_in(work, written)
    assert refused(work, *argv) == ""


def test_a_folder_is_trusted_with_the_files_that_agents_wrote_in_it(work: Path) -> None:
    """A virtual environment has many; each later change counts again."""
    written = [".venv/lib/site-packages/new.py", ".venv/bin/python"]
    for name in written:
        agent_writes_in(work, name)
    assert sorted(agent_writes.trust(work / ".venv")) == sorted(work / name for name in written)
    assert refused(work, "hook") == ""
    agent_writes_in(work, ".venv/lib/site-packages/newer.py")
    assert "newer.py" in refused(work, "hook")
