"""The files in `deploy/`: what they call exists, and a backup is restored."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from coterie.cli import app

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
    command = app.command(words)
    with command.commands[words[0]].make_context(words[0], list(words[1:])) as context:
        drain = context.params.get("drain") or 60

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
    subprocess.run([DEPLOY / "backup.sh", ".coterie", "runs.tar.gz"], check=True)
    assert Path("runs.tar.gz").stat().st_mode & 0o077 == 0
    shutil.rmtree(".coterie")
    subprocess.run([DEPLOY / "restore.sh", "runs.tar.gz", ".coterie"], check=True)
    journal = Path(".coterie/runs", run, "journal.jsonl")
    assert app.main(["replay", run]) == 0
    capsys.readouterr()
    assert app.main(["inspect", run, "output", "a#1"]) == 0
    assert "hi" in capsys.readouterr().out

    whole = journal.read_bytes()
    journal.write_bytes(whole + b"\n")
    subprocess.run([DEPLOY / "restore.sh", "runs.tar.gz", ".coterie"], check=True)
    assert journal.read_bytes() == whole + b"\n"


def test_the_container_is_not_root_and_has_bubblewrap() -> None:
    """No test builds it, and it says so."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")

    assert "bubblewrap" in text
    assert "\nUSER 10001\n" in text
    assert "Untested" in text
