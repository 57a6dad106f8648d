"""Places that lack something, as users meet them: what runs there, and what the commands say where it does not."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TEAM = """topology places : [pipeline] {
  agent one { extensions { coterie { command: ["sh", "-c", "echo one wrote a note"] } } }
  human editor { outputs { verdict: yes | no } }
  agent two { extensions { coterie { command: ["sh", "-c", "echo two is done"] } } }
  flow { one -> editor -> two }
}
"""
LOOP = """name = "steps"
completion = "task.complete"

[[role]]
id = "one"
emits = ["task.complete"]
prompt = "Write."
backend_command = "sh"
backend_args = ["-c", "coterie emit task.complete"]

[handoff]
"loop.start" = ["one"]
"""


@dataclass(frozen=True)
class Without:
    """What a place lacks; the words of `doctor` and its status, and why no run begins, if none does."""

    what: str
    doctor: str
    status: int = 0
    refused: str = ""


PLACES = [
    Without("", "no problems"),
    Without("link", "its file system has no hard links: files are copied instead"),
    Without("symlink", "its file system has no symbolic links: files are copied instead"),
    Without("link,symlink", "its file system has no hard links and no symbolic links: files are copied instead"),
    Without("sync of folders", "no problems"),
    Without("socket", "live runs read messages within seconds"),
    Without("home", "HOME is not set and the user is in no user database: no list of runs, no settings of the user"),
    Without("re2", "no problems"),
    Without("flock", "file locks do not work at", 1, "file locks do not work at"),
    Without("chmod", "cannot be written: Operation not permitted", 1, "Operation not permitted"),
]


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., str]:
    """Run a command in a place that lacks something, and return its words on one line."""

    def call(lacks: str, *words: str, status: int | None = 0) -> str:
        own = {"LACKS": lacks, "PYTHONPATH": str(Path(__file__).parents[2] / "support" / "lacking")}
        env = os.environ | own | {"HOME": str(tmp_path / "home"), "COLUMNS": "80"}
        env.pop("XDG_STATE_HOME", None)
        command = [sys.executable, "-m", "coterie", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        said = " ".join(f"{done.stdout} {done.stderr}".split())
        assert status in (None, done.returncode), said
        assert "bug in coterie" not in said
        assert "Traceback" not in said
        return said

    (tmp_path / "home").mkdir()
    (tmp_path / "places.at").write_text(TEAM)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "topology.toml").write_text(LOOP)
    (tmp_path / "loop" / "autoloops.toml").write_text('backend.kind = "command"\nreview.enabled = false\n')
    return call


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.what or "nothing")
def test_a_place_that_lacks_something_runs_all_the_same_or_says_why(call: Callable[..., str], place: Without) -> None:
    """A run is parked, answered and resumed, a loop emits, and `doctor` names what is missing before."""
    assert place.doctor in call(place.what, "doctor", status=place.status)
    said = call(place.what, "run", "places.at", "go", status=None)
    if place.refused:
        assert place.refused in said
        assert "no runs yet" in call(place.what, "runs")
        return
    assert "editor#1 asks" in said
    assert "queued" in call(place.what, "control", "respond", "last", "Fine", "--output", "verdict=yes")
    assert "two is done" in call(place.what, "resume", "last")
    assert "completed" in call(place.what, "runs")
    assert "completed" in call(place.what, "inspect", "last")
    assert "emitted task.complete" in call(place.what, "run", "loop", "go", "--yes")


@pytest.mark.parametrize("lacks", ["flock", "chmod", "link,symlink", "home"])
def test_runs_that_began_elsewhere_are_read_where_none_can_begin(call: Callable[..., str], lacks: str) -> None:
    """As those of a laptop on a network drive: without locks a run has no owner."""
    assert "editor#1 asks" in call("", "run", "places.at", "go", status=4)

    assert "waiting" in call(lacks, "runs")
    assert "one wrote a note" in call(lacks, "inspect", "last")
    call(lacks, "doctor", status=None)


def test_an_expression_that_needs_re2_is_refused_with_the_line_that_installs_it(
    call: Callable[..., str], tmp_path: Path
) -> None:
    """Others mean the same without it."""
    file, usual = tmp_path / "loop" / "topology.toml", LOOP + '"/task\\\\..*/" = ["one"]\n'
    file.write_text(usual)
    call("re2", "topology", "validate", "loop")
    file.write_text(usual.replace(".*/", "(a+)+$/"))
    call("", "topology", "validate", "loop")

    said = call("re2", "topology", "validate", "loop", status=1)
    assert "pip install 'coterie[re2]' installs the library that reads it" in said
