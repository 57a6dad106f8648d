"""A loop in a git work tree on a cluster: its agents emit, remember, and leave files, on whatever node they work."""

import asyncio
import json
from pathlib import Path

import pytest
from cluster_stage import WITHIN, Server, coterie, serving
from loop_projects import project
from repositories import commit, git, repository
from until import until

from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.files import RunFiles
from coterie.execution.cluster.submit import files_of
from coterie.execution.cluster.wire import MsgspecConverter
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    ConfigChanged,
    EventEmitted,
    EventInvalid,
    MemoryChanged,
    RunNotified,
    TreeAttested,
    TreeSaved,
    TurnFinished,
)

SCRIPT = """
here = pathlib.Path("notes.txt")
known = here.read_text() if here.exists() else ""
here.write_text(known + turn + "\\n")
subprocess.run([emit, "memory", "add", "learning", f"{turn} was here"], check=True)
subprocess.run([emit, "memory", "add", "learning", "--project", f"{turn} is over"], check=True)
if turn == "work#1":
    refused = subprocess.run([emit, "emit", "nonsense"], capture_output=True, text=True)
    assert refused.returncode, refused
    subprocess.run([emit, "emit", "next"], check=True)
else:
    prompt = sys.stdin.read()
    assert "was here" in prompt
    assert os.environ["WROTE"] in prompt
    assert "notes in .autoloop/notes" in prompt
    subprocess.run([emit, "emit", "done"], check=True)
print(os.getcwd())
"""


async def _place(cluster: str) -> RunFiles | None:
    async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, export):
        return await files_of(client, "loop-1", await export.load("loop-1"))


@pytest.mark.slow
def test_a_loop_works_on_its_files_and_brings_them_back(temporal_server: Server, tmp_path: Path) -> None:
    """Its folder has a quote in its name, and a prompt that contains the folder's path arrives as it was written."""
    home = repository(tmp_path / "user" / 're"po')
    called, wrote = tmp_path / "called.json", f"see https://x.example{home}/notes and /mnt{home}"
    (home / "loop").mkdir()
    (home / "loop" / "called.sh").write_text(f"cat > {called}; pwd; exit 3")
    (home / "loop" / "harness.md").write_text("notes in {{STATE_DIR}}/notes")
    notify = f"notify.command = ['sh', '{home / 'loop' / 'called.sh'}']"
    project(home / "loop", SCRIPT.replace("work#1", "iteration#1"), notify)
    commit(home, "the loop")
    (home / "draft.txt").write_text("not committed\n")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    with serving(tmp_path, cluster, name="one", WROTE=wrote), serving(tmp_path, cluster, name="two", WROTE=wrote):
        done = coterie("submit", "loop", wrote, "--id", "loop-1", "--wait", cwd=home, cluster=cluster)
        place = asyncio.run(_place(cluster))
        assert place is not None
        assert git(home, "show", f"{place.heads[-1].commit}:notes.txt") == "iteration#1\niteration#2"
    logs = "".join((tmp_path / f"{name}.log").read_text() for name in ("one", "two"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    records = list(JsonlStore(tmp_path / "export").read("loop-1"))
    assert [one.event for one in records if isinstance(one, EventEmitted)] == ["next", "done"]
    assert [one.event for one in records if isinstance(one, EventInvalid)] == ["nonsense"]
    assert len([one for one in records if isinstance(one, MemoryChanged)]) == 4
    document = json.loads(called.read_text())
    assert (document["run"], document["status"], document["iterations"]) == ("loop-1", "completed", 2)
    assert not [one for one in records if isinstance(one, ConfigChanged)]  # its settings hold paths of this machine
    [notified] = [one for one in records if isinstance(one, RunNotified)]
    assert notified.problem.startswith("sh ended with 3: ")
    assert "/trees/" in notified.problem  # among the files of the run, wherever the node keeps them
    places = [one.text.strip().splitlines()[-1] for one in records if isinstance(one, TurnFinished)]
    assert ["/trees/" in place for place in places] == [True, True]  # an answer is kept as it was given
    assert "on the branch coterie/loop-1" in done.stderr
    assert git(home, "show", "coterie/loop-1:notes.txt").splitlines() == ["iteration#1", "iteration#2"]
    assert git(home, "show", "coterie/loop-1:draft.txt").strip() == "not committed"
    assert git(home, "log", "--format=%s", "-1", "coterie/loop-1^").strip() == "the loop"
    assert not (home / "notes.txt").exists()
    submitted = coterie("submit", "loop", wrote, "--id", "loop-1", "--wait", cwd=home, cluster=cluster)
    assert "on the branch coterie/loop-1" in submitted.stderr
    kept = (home / ".autoloop" / "memory.jsonl").read_text()
    assert [kept.count(f"iteration#{n} is over") for n in (1, 2)] == [1, 1]
    memory = coterie("inspect", "loop-1", "memory", cwd=home, cluster=cluster).stdout
    assert [f"iteration#{n} was here" in memory for n in (1, 2)] == [True, True]


LEAVES = """
def git(*words):
    done = subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words], capture_output=True)
    return done.stdout.decode()
pathlib.Path("work.txt").write_text(turn)
if turn == "iteration#1":
    git("checkout", "-qb", "wip"), git("add", "-A"), git("commit", "-qm", "on wip")
else:
    pathlib.Path("seen.txt").write_text(git("branch", "--format=%(refname)") + sys.stdin.read())
    pathlib.Path("shelved.txt").write_text("shelved")
    git("stash", "push", "-u", "shelved.txt")
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_an_attempt_that_leaves_its_branch_on_a_node_is_void(
    temporal_server: Server, tmp_path: Path, sandbox: str
) -> None:
    """Its completion, too; the next attempt is told, and what agents left in no branch comes back beside the work."""
    home, run = repository(tmp_path / "user"), f"leaves-{sandbox}"
    project(home / "loop", LEAVES, f"backend.sandbox = {sandbox!r}\n")
    commit(home, "the loop")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    with serving(tmp_path, cluster, name="one"):
        done = coterie("submit", "loop", "go", "--id", run, "--wait", cwd=home, cluster=cluster)

    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "one.log").read_text()
    records = list(JsonlStore(tmp_path / "export").read(run))
    [problem, _] = [one.problem for one in records if isinstance(one, TreeAttested)]
    assert "is on the branch wip, and only the branch coterie/" in problem
    voids = [one.voids for one in records if isinstance(one, TreeAttested)]
    assert voids == [True, False]
    assert f"its work is on the branch coterie/{run}\n" in done.stderr
    assert "2 commits are kept" in done.stderr
    assert git(home, "show", f"coterie/{run}:work.txt") == "iteration#2"
    seen = git(home, "show", f"coterie/{run}:seen.txt")
    assert seen.startswith("refs/heads/coterie/")
    assert "wip" in seen.partition("\n")[2]  # its prompt says why the first attempt failed
    lost = git(home, "for-each-ref", "--format=%(subject)", f"refs/coterie/{run}/lost/").splitlines()
    assert "on wip" in lost
    assert git(home, "branch", "--format=%(refname:short)").split() == [f"coterie/{run}", "main"]


WAITS = """
with open("notes.txt", "a") as notes:
    notes.write(turn + "\\n")
if turn == "iteration#2" and not os.path.exists(os.environ["GO"]):
    import time
    time.sleep(600)
subprocess.run([emit, "emit", "done" if turn == "iteration#3" else "next"], check=True)
"""


@pytest.mark.long
def test_a_loop_goes_on_here_with_the_files_that_it_left_there(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work is merged first; without it, its turns would miss what earlier ones did."""
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    home = repository(tmp_path / "user" / "repo")
    project(home / "loop", WAITS)
    commit(home, "the loop")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"

    async def terminate() -> None:
        async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, _):
            await client.get_workflow_handle("loop-2").terminate()

    with serving(tmp_path, cluster):
        coterie("submit", "loop", "work", "--id", "loop-2", cwd=home, cluster=cluster)
        until(lambda: "iteration#2 started" in coterie("inspect", "loop-2", cwd=home, cluster=cluster).stdout, WITHIN)
        asyncio.run(terminate())
        (tmp_path / "go").touch()
        early = coterie("resume", "loop-2", "--here", cwd=home, cluster=cluster)
        assert (early.returncode, "`git merge coterie/loop-2`" in early.stderr) == (2, True), early.stderr
        git(home, "merge", "coterie/loop-2")
        done = coterie("resume", "loop-2", "--here", cwd=home, cluster=cluster)
    assert done.returncode == 0, done.stderr
    assert (home / "notes.txt").read_text().splitlines() == ["iteration#1", "iteration#2", "iteration#3"]


COMPLETES = """
attempt = os.environ["COTERIE_ATTEMPT"]
with open("notes.txt", "a") as notes:
    notes.write(f"{turn}.{attempt}\\n")
subprocess.run([emit, "emit", "done"], check=True)
if attempt == "1":
    pathlib.Path(os.environ["EMITTED"]).touch()
    import time
    time.sleep(3600)
"""


@pytest.mark.long
def test_a_node_that_dies_after_the_completion_does_not_complete_the_run_without_the_files(
    temporal_server: Server, tmp_path: Path
) -> None:
    """The turn is tried again on another node, and its files come back."""
    home = repository(tmp_path / "user" / "repo")
    project(home / "loop", COMPLETES)
    commit(home, "the loop")
    cluster, emitted = f"{temporal_server.url}?export={tmp_path / 'export'}", tmp_path / "emitted"
    with serving(tmp_path, cluster, name="one", EMITTED=str(emitted)) as one:
        coterie("submit", "loop", "work", "--id", "loop-3", cwd=home, cluster=cluster)
        until(emitted.exists, WITHIN)
        until(lambda: "done" in coterie("inspect", "loop-3", cwd=home, cluster=cluster).stdout, WITHIN)
        one.kill()
        with serving(tmp_path, cluster, name="two", EMITTED=str(emitted)):
            done = coterie("submit", "loop", "work", "--id", "loop-3", "--wait", cwd=home, cluster=cluster)
            assert done.returncode == 0, done.stdout + done.stderr
            assert git(home, "show", "coterie/loop-3:notes.txt").splitlines() == ["iteration#1.2"]
    saved = [one for one in JsonlStore(tmp_path / "export").read("loop-3") if isinstance(one, TreeSaved)]
    assert [(one.attempt, one.lost, one.commit != "") for one in saved] == [(1, True, False), (2, False, True)]
