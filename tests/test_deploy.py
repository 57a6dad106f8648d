"""The files in `deploy/`: what they call exists, and a backup is restored."""

import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from coterie.interfaces.cli import app
from coterie.interfaces.cli.named_command import find_command
from coterie.interfaces.cli.parser import parse

DEPLOY = Path(__file__).parents[1] / "deploy"
TEAM = 'topology t : [pipeline] { agent a { extensions { coterie { command: ["echo", "hi"] } } } flow { a } }\n'


def options(unit: Path) -> dict[str, str]:
    """The options of a unit of systemd, the last one of each name."""
    lines = (line.partition("=") for line in unit.read_text(encoding="utf-8").splitlines() if "=" in line)
    return {name: value for name, _, value in lines if not name.startswith("#")}


@pytest.mark.parametrize("name", ["coterie-node.service", "coterie-system.service"])
def test_a_unit_calls_a_command_that_exists_and_leaves_it_time_to_drain(name: str) -> None:
    """Its options are parsed; it is stopped by SIGTERM to the main process alone, agents are ended by that."""
    found = options(DEPLOY / name)
    program, *words = found["ExecStart"].split()
    command, rest = find_command(words)
    drain = parse(command, rest).get("drain") or 60

    assert program.endswith("/coterie")
    assert int(found["TimeoutStopSec"]) >= drain + 10
    assert found["KillMode"] == "mixed"
    assert found["User"] != "root"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_knows_every_option(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say about them."""
    for unit in DEPLOY.glob("*.service"):
        text = unit.read_text(encoding="utf-8").replace("/opt/coterie/bin/coterie", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("User=coterie", "User=daemon"))
    units = map(str, sorted(tmp_path.glob("*.service")))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60)

    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or "Unknown" in line] == []


def test_a_backup_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the state directory lost, the run is shown and replayed as before; runs that are there stay."""
    (tmp_path / "t.at").write_text(TEAM)
    monkeypatch.chdir(tmp_path)
    assert app.main(["run", "t.at"]) == 0
    [run] = os.listdir(".coterie/runs")
    subprocess.run([sys.executable, DEPLOY / "backup.py", ".coterie", "runs.tar.gz"], check=True)
    assert Path("runs.tar.gz").stat().st_mode & 0o077 == 0
    shutil.rmtree(".coterie")
    subprocess.run([sys.executable, DEPLOY / "restore.py", "runs.tar.gz", ".coterie"], check=True)
    journal = Path(".coterie/runs", run, "journal.jsonl")
    assert app.main(["replay", run]) == 0
    capsys.readouterr()
    assert app.main(["inspect", run, "output", "a#1"]) == 0
    assert "hi" in capsys.readouterr().out

    whole = journal.read_bytes()
    journal.write_bytes(whole + b"\n")
    subprocess.run([sys.executable, DEPLOY / "restore.py", "runs.tar.gz", ".coterie"], check=True)
    assert journal.read_bytes() == whole + b"\n"


def deploy(program: str, *words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, DEPLOY / program, *words], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_a_backup_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    """Whatever an earlier one left beside it; an archive is never a part of one."""
    target = tmp_path / "runs.tar.gz"
    target.write_text("the one before")
    (tmp_path / "runs.tar.gz.part").write_text("left by one that was cut off")
    status, said = deploy("backup.py", str(tmp_path / "nothing"), str(target))

    assert (status, "backup.py .coterie runs.tar.gz" in said) == (1, True)
    assert target.read_text() == "the one before"


def test_the_part_of_a_killed_backup_is_never_an_archive_and_goes_with_the_next(tmp_path: Path) -> None:
    """It is killed while it reads; one that another process still writes stays."""
    journal = tmp_path / "state" / "runs" / "r1" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    (target := tmp_path / "runs.tar.gz").write_bytes(b"the one before")
    words = [sys.executable, str(DEPLOY / "backup.py"), str(tmp_path / "state"), str(target)]
    halting = "import os, runpy, signal, sys; sys.argv[:1] = []; os.fsync = lambda fd: os.kill(os.getpid(), 9)\n"
    killed = subprocess.run(
        [sys.executable, "-c", f"{halting}runpy.run_path(sys.argv[0], run_name='__main__')", *words[1:]]
    )
    [part] = tmp_path.glob(".runs.tar.gz.*")
    assert (killed.returncode, target.read_bytes()) == (-9, b"the one before")
    held = part.with_name(".runs.tar.gz.held")
    with held.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        subprocess.run(words, check=True)

    assert [*tmp_path.glob(".runs.tar.gz.*")] == [held]
    with tarfile.open(target) as archive:
        assert "runs/r1/journal.jsonl" in archive.getnames()


def test_a_file_with_several_names_is_restored_with_each(tmp_path: Path) -> None:
    """As the command that an attempt calls; a link to an earlier name is no file of an archive."""
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "emit").write_text("the command")
    (run / "tool").hardlink_to(run / "emit")
    archive, home = str(tmp_path / "a.tar.gz"), tmp_path / "home"
    assert deploy("backup.py", str(tmp_path), archive) == (0, "")
    assert deploy("restore.py", archive, str(home))[0] == 0

    for name in ("emit", "tool"):
        assert (home / "runs" / "one" / name).read_text() == "the command"


def test_a_backup_holds_no_link_and_nothing_of_the_owner(tmp_path: Path) -> None:
    """What a link in a run's folder leads to is not part of the run."""
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (tmp_path / "secret").write_text("not of the run")
    for name in ("journal.jsonl", "lock", "control.json"):
        (run / name).write_text(name)
    (run / "link").symlink_to(tmp_path / "secret")
    assert deploy("backup.py", str(tmp_path), str(tmp_path / "a.tar.gz")) == (0, "")

    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert archive.getnames() == ["runs", "runs/one", "runs/one/journal.jsonl"]


@pytest.mark.parametrize("name", ["../evil", "/evil", "runs/../../evil", "other/evil"])
def test_an_archive_of_something_else_restores_nothing(tmp_path: Path, name: str) -> None:
    """Its names never lead out of the state directory."""
    (tmp_path / "text").write_text("evil")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "text", "runs/one/journal.jsonl")
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    status, said = deploy("restore.py", str(tmp_path / "a.tar.gz"), str(tmp_path / "state"))

    assert (status, "nothing was restored" in said) == (1, True)
    assert list((tmp_path / "state").rglob("*")) == [tmp_path / "state/runs"]


def test_an_archive_that_is_cut_off_restores_nothing(tmp_path: Path) -> None:
    """Half a run would look like one."""
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs/one/journal.jsonl").write_bytes(os.urandom(100_000))
    deploy("backup.py", str(tmp_path), str(tmp_path / "a.tar.gz"))
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])
    status, said = deploy("restore.py", str(tmp_path / "a.tar.gz"), str(tmp_path / "state"))

    assert (status, "nothing was restored" in said) == (1, True)
    assert list((tmp_path / "state").rglob("*")) == [tmp_path / "state/runs"]


def test_the_container_is_not_root_and_has_bubblewrap() -> None:
    """No test builds it, and it says so."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")

    assert "bubblewrap" in text
    assert "\nUSER 10001\n" in text
    assert "Untested" in text
