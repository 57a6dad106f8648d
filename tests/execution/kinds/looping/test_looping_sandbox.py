"""A loop whose agent is confined: what is killed is ended whole, and the loop goes on."""

import subprocess
from pathlib import Path

import preforked
import pytest
from repositories import repository
from test_looping_pi import project, records, run
from until import until

from coterie.agents.backends.processes import any_alive
from coterie.agents.backends.sandbox import bwrap, choice
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptLaunched


@pytest.mark.slow
@pytest.mark.skipif(choice.working() is None, reason="no sandbox works here")
@pytest.mark.parametrize("victims", [("owner",), ("agent",), ("owner", "agent")], ids="+".join)
def test_nothing_in_the_sandbox_outlives_a_kill(tmp_path: Path, victims: tuple[str, ...]) -> None:
    """After SIGKILL of the owner, the agent or both; then the run completes, and repeats nothing.

    What the agent has left in the repository, from which git would take commands, is removed by the next owner, too.
    """
    repository(tmp_path)
    wait = "[ -e go ] || { setsid env -i sleep 600 & touch .git/commondir waits; sleep 600; }"
    project(tmp_path, "echo one >> done", wait, "echo three >> done")
    owner = preforked.start_quietly("run", ".", "go", cwd=tmp_path)
    until((tmp_path / "waits").exists)
    [folder] = tmp_path.glob(".autoloop/runs/*/")
    store, mark = JsonlStore(tmp_path / ".autoloop"), f"{folder.name}/"

    def launched() -> list[AttemptLaunched]:
        return [one for one in store.read(folder.name) if isinstance(one, AttemptLaunched)]

    until(lambda: len(launched()) == 2)
    assert any_alive(mark, ())
    (tmp_path / "go").touch()

    for victim in victims:
        if victim == "owner":
            owner.kill()
            owner.wait()
        else:
            subprocess.run(["kill", "-9", str(launched()[1].pid)], check=False)
    if "owner" in victims:
        if choice.working() is bwrap:  # Landlock leaves what the agent has started to the next owner
            until(lambda: not any_alive(mark, ()))
        assert run(tmp_path, "resume", folder.name).returncode == 0
    assert owner.wait(300) == (-9 if "owner" in victims else 0)

    assert not any_alive(mark, ())
    assert not (tmp_path / ".git/commondir").exists()
    assert not [*tmp_path.glob(".autoloop/runs/*/turns/*/restore.json")]
    assert (tmp_path / "done").read_text() == "one\nthree\n"
    assert [record["event"] for record in records(tmp_path, "event.emitted")] == ["one.done", "two.done", "three.done"]
