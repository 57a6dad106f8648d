"""A spent quota on the command line: the run stops and says until when, and is resumed when it opens."""

import json
import signal
import time

import pytest
from command_line import Place

TEAM = """topology q : [pipeline] {
  meta { version: "1.0.0" }
  agent a { model: m  extensions { coterie { backend: command  command: ["sh", "agent.sh"] } } }
  action b { commands: ["true"] }
  flow { a -> b }
}
"""
SPENT_ONCE = """cat > /dev/null
echo tried >> tries
if [ -e open ]; then echo done; exit 0; fi
touch open
echo 'Claude usage limit reached, try again in 2 hours' >&2
exit 1
"""


@pytest.fixture
def quota(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A team whose first attempt finds the quota spent, and a wall clock that jumps to where a command sleeps."""
    (place.folder / "q.at").write_text(TEAM)
    (place.folder / "agent.sh").write_text(SPENT_ONCE)
    really, jumped = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: really() + jumped[0])

    def sleep_until(due: float) -> None:
        jumped[0] += due - time.time()

    monkeypatch.setattr("coterie.execution.runs.quotas.sleep_until", sleep_until)
    return place


def test_a_spent_quota_ends_the_command_with_status_3_and_says_what_to_do(quota: Place) -> None:
    """Not completed, not failed; the list of runs names the time, too."""
    said = quota.look("run", "q.at", "Do it", status=3)

    assert "stopped (quota until 2" in said.err
    assert "its quota opens at 2" in said.err
    assert "coterie resume --when-open " in said.err
    assert "stopped: quota until 2" in quota.look("runs").out


def test_resume_when_open_waits_and_then_resumes(quota: Place) -> None:
    """The command says how long it sleeps; the run goes on with the attempt that the quota kept."""
    quota.look("run", "q.at", "Do it", status=3)
    said = quota.look("resume", "--when-open", "last")

    assert "last waits until 2" in said.err
    assert "completed: " in said.err


def test_resume_before_the_time_stops_again(quota: Place) -> None:
    """Without an attempt; with --try-now it is tried."""
    quota.look("run", "q.at", "Do it", status=3)
    tries = quota.folder / "tries"

    assert "stopped (quota until 2" in quota.look("resume", "last", status=3).err
    assert tries.read_text() == "tried\n"
    assert "completed: " in quota.look("resume", "last", "--try-now").err
    assert tries.read_text() == "tried\ntried\n"


def test_several_runs_need_when_open(quota: Place) -> None:
    """Otherwise one run at a time is resumed."""
    assert "--when-open" in quota.look("resume", "a", "b", status=2).err


def test_when_open_resumes_several_runs(quota: Place) -> None:
    """Each when its own quota opens."""
    quota.look("run", "q.at", "Do it", status=3)
    (quota.folder / "open").unlink()
    quota.look("run", "q.at", "Do more", status=3)
    runs = [one["run"] for one in json.loads(quota.look("runs", "--json").out)]
    said = quota.look("resume", "--when-open", *runs)

    assert said.err.count("completed: ") == 2
    assert quota.look("runs").out.count("completed") == 2


def test_waiting_here_for_a_quota_says_until_when(quota: Place) -> None:
    """With --json too, since it may take hours."""
    process = quota.start("run", "q.at", "Do it", "--wait-quota", "--json")
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")

    assert "a#1 waits until 2" in next(line for line in lines if "quota" in line)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
