"""Programs, modules and settings that an agent wrote: no way to name one has it executed, and no clock hides it."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundles import bundle

from coterie.agents.backends.agentside import client
from coterie.base import agent_writes, files, program_files
from coterie.interfaces.cli import app
from coterie.interfaces.ui import actions
from coterie.team.formats.settings.edit import save_document

HOUR = 3600 * 10**9


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which a confined attempt has written every file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "package").mkdir()
    (work / "bin").mkdir()
    with agent_writes.noted(tmp_path / "attempt", [work], {}):
        for name in ("hook.sh", "server.py", "__main__.py", "first.js", "main.js", "lib.so", "bin/tool"):
            (work / name).write_text("#!/bin/sh\n")
            (work / name).chmod(0o755)
        (work / "package" / "__main__.py").write_text("")
        (work / "notes.md").write_text("")
    return work


COMMANDS = {
    "a module": "python3 -m server",
    "a module in one word": "python3 -mserver",
    "a module behind flags": "python3 -Bum server",
    "flags and a module in one word": "python3 -umserver",
    "a module behind a warning": "python3 -W ignore -m server",
    "a module behind a warning in one word": "python3 -Wignore -mserver",
    "a module behind an option": "python3 -X dev -m server",
    "a package": "python3 -m package",
    "text beside modules": "python3 -c pass",
    "text in one word": "python3 -cpass",
    "standard input beside modules": "python3 -",
    "a folder": "python3 package",
    "this folder": "python3 .",
    "an isolated script": "python3 -I server.py",
    "an isolated folder": "python3 -I package",
    "a script behind a long option": "python3 --check-hash-based-pycs always server.py",
    "env": "env sh hook.sh",
    "env with an unset variable": "env -u HOME sh hook.sh",
    "env in another folder": "env -C sub sh ../hook.sh",
    "env in another folder, long": "env --chdir=sub ../hook.sh",
    "env with one word": "env -S 'sh hook.sh'",
    "env with one word behind": "env -vS'sh hook.sh'",
    "env with one word, long": "env --split-string='sh hook.sh'",
    "env with a path": "env PATH=bin tool",
    "env with a module path": "env PYTHONPATH=. python3 /bin/true",
    "env in env": "env env -i sh hook.sh",
    "a required module": "node --require=./first.js /dev/null",
    "a required module and a script": "node -r /etc/hostname main.js",
    "an imported module": "node --import ./first.js",
    "behind nice": "nice -n 5 ./hook.sh",
    "behind a time limit": "timeout 5 ./hook.sh",
    "by its path": "bin/tool",
    "through a folder above": "sub/../hook.sh",
}


@bundle("how", COMMANDS)
def test_no_way_to_name_a_program_starts_it(work: Path, how: str) -> None:
    """The owner reads a command as the program that starts reads it."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    argv = shlex.split(COMMANDS[how])
    if argv[0] == "node":  # need not be installed: any program with these options
        argv[0] = "/bin/true"
    assert "an agent could have written it" in program_files.refusal(argv, work, env)


VARIABLES = {
    "PYTHONPATH": ("{work}", ["python3", "/bin/true"]),
    "PYTHONPATH, relative": (".", ["python3", "-P", "-c", "pass"]),
    "PATH": ("{work}/bin:/usr/bin:/bin", ["tool"]),
    "PATH, relative": ("bin:/usr/bin:/bin", ["tool"]),
    "LD_PRELOAD": ("{work}/lib.so", ["/bin/true"]),
    "LD_AUDIT": ("/lib/x.so:{work}/lib.so", ["/bin/true"]),
    "BASH_ENV": ("hook.sh", ["/bin/sh", "-c", "true"]),
    "ENV": ("./hook.sh", ["/bin/sh"]),
    "NODE_OPTIONS": ("--max-old-space-size=1 --require ./first.js", ["/bin/true"]),
    "RUBYOPT": ("-r ./first.js", ["/bin/true"]),
}


@bundle("variable", VARIABLES)
def test_no_variable_loads_it_first(work: Path, variable: str) -> None:
    """A server's `env` may name it as well as its command."""
    value, argv = VARIABLES[variable]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", variable.partition(",")[0]: value.format(work=work)}
    assert "an agent could have written it" in program_files.refusal(argv, work, env)


@bundle(
    "command",
    [
        "python3 -P -c pass",
        "python3 -I -m server",
        "python3 -I /bin/true",
        "env -u PATH /bin/true",
        "env -S /bin/true hook.sh.orig",
        "/bin/true --require=/etc/hostname",
        "/bin/true --file=hook.sh",
    ],
)
def test_a_command_that_executes_none_of_it_is_started(work: Path, command: str) -> None:
    """The rule would otherwise refuse everything."""
    assert program_files.refusal(command.split(), work, {"PATH": "/usr/local/bin:/usr/bin:/bin"}) == ""


EVIL = "import os\nos.close(os.open(os.environ['SPRUNG'], os.O_CREAT))\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coterie/__init__.py", "msgspec.py", "json.py", "sitecustomize.py"])
def test_coterie_that_coterie_starts_imports_nothing_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Neither from the page, in the project's folder, nor by the command of an attempt in the work tree."""
    work = tmp_path / "work"
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(EVIL)
    monkeypatch.setenv("SPRUNG", str(tmp_path / "sprung"))
    started: list[list[str]] = []
    real = subprocess.Popen

    def begin(args: list[str], **options: object) -> "subprocess.Popen[bytes]":
        started.append(args)
        return real([*args[: args.index("coterie") + 1], "presets"], **options)  # type: ignore[call-overload,no-any-return]

    class Place:
        run, is_here = "r", True

        @property
        def runs(self) -> "Place":
            return self

        root, store, status = work / ".coterie", property(lambda self: self), staticmethod(lambda run: "stopped")

        def has(self, run: str) -> bool:
            return False

        def is_owned(self, run: str) -> bool:
            return False

    (work / ".coterie").mkdir()
    monkeypatch.setattr(actions.subprocess, "Popen", begin)
    monkeypatch.setattr(actions.index, "project_of", lambda root: work)
    verdict = actions.start(Place(), ["resume", "r"])  # type: ignore[arg-type]
    assert verdict.status == "accepted"
    assert "research" in verdict.detail
    assert len(started) == 1

    executed: list[list[str]] = []
    monkeypatch.setattr(client.os, "execve", lambda program, words, env: executed.append(words))
    monkeypatch.setattr(sys, "argv", ["coterie", "presets"])
    client.wrapper({}, sys.executable)
    done = subprocess.run(executed[0], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "sprung").exists()


def lines(*entries: dict[str, object]) -> None:
    """Let the user's state have *entries* of attempts."""
    path = files.user_state() / agent_writes.FILE
    files.make_folder(path.parent)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))


CLOCKS = {
    "set back while it lived": (HOUR, -60, True),
    "set back by a day": (24 * HOUR, -60, True),
    "set forward while it lived": (-60, HOUR, True),
    "set back, and never ended": (HOUR, None, True),
    "not set, and over before": (-3 * HOUR, -2 * HOUR, False),
    "not set, and later": (HOUR, 2 * HOUR, False),
}


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the test reads the clock of Linux")
@bundle("how", CLOCKS)
def test_a_clock_that_is_set_hides_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """By times of the kernel alone a file would seem to be older than the attempt that wrote it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    began, ended, suspect = CLOCKS[how]
    (tmp_path / "work").mkdir()
    (file := tmp_path / "work" / "file").write_text("evil")
    now, clock = file.stat().st_ctime_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    lasted = 120 * 10**9 if suspect else HOUR
    entry = {"id": str(tmp_path / "a"), "folders": [str(tmp_path / "work")], "began": now + began, "at": clock - lasted}
    ends = {"id": str(tmp_path / "a"), "ended": now + (ended or 0) + 120 * 10**9 * suspect, "at": clock}
    lines(entry, *([ends] if ended is not None else []))

    assert bool(agent_writes.writer_of(file)) is suspect


@bundle("at", [0, 1, 10**18])
def test_an_entry_without_a_second_clock_counts_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Of an earlier release, or from before a reboot, when that clock began anew."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    (file := tmp_path / "work" / "file").write_text("evil")
    now = file.stat().st_ctime_ns
    one = {"id": "a", "folders": [str(tmp_path / "work")], "began": now - 9, "at": at}
    lines(one, {"id": "a", "ended": now + 9, "at": at})
    assert agent_writes.writer_of(file) == "a"
    lines(one, {"id": "a", "ended": now - 3, "at": at})
    assert agent_writes.writer_of(file) == ""


def test_what_an_agent_puts_there_after_the_operator_has_read_is_not_trusted(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`config trust` shows one content, and an attempt that lives replaces it before it is trusted."""
    with agent_writes.noted(work.parent / "lives", [work], {}):
        (path := work / "autoloops.toml").write_text("event_loop.max_iterations = 3\n")
        trust = agent_writes.trust

        def late(file: Path, content: bytes | None = None) -> list[Path]:
            path.write_text("backend.sandbox = 'off'\n")
            return trust(file, content)

        monkeypatch.setattr(agent_writes, "trust", late)
        assert app.main(["config", "trust", str(path)]) == 0
        assert "max_iterations" in capsys.readouterr().out
        assert agent_writes.writer_of(path)
        path.write_text("event_loop.max_iterations = 3\n")
        assert not agent_writes.writer_of(path)


def test_what_an_agent_writes_over_a_changed_setting_is_not_trusted(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config set` trusts what it has written, whatever lies there by then."""
    import tomlkit

    with agent_writes.noted(work.parent / "lives", [work], {}):
        replace = files.replace_text

        def then_evil(path: Path, text: str) -> None:
            replace(path, text)
            path.write_text("backend.sandbox = 'off'\n")

        monkeypatch.setattr(files, "replace_text", then_evil)
        save_document(work / "autoloops.toml", tomlkit.parse("a = 1\n"))
        assert agent_writes.writer_of(work / "autoloops.toml")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "huge", "link to a pipe"])
def test_what_is_trusted_is_a_file(work: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """The command ends, with the reason; nothing is waited for or read without end."""
    path = work / "evil.toml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "huge":
            path.touch()
            os.truncate(path, 1 << 40)
        case _:
            os.mkfifo(work / "pipe")
            path.symlink_to("pipe")
    status = app.main(["config", "trust", str(path)])
    said = "".join(capsys.readouterr())

    assert status == (0 if kind == "folder" else 2), said
    assert "Traceback" not in said
