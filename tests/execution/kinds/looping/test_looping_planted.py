"""What an agent leaves in the folders of the owner is neither followed nor believed, by its own run or a later one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from repositories import git, repository

from coterie.agents.backends.sandbox import choice
from coterie.base import agent_writes
from coterie.interfaces.cli import app

Coterie = Callable[..., tuple[int, str]]

TOPOLOGY = """
completion = "done"
[[role]]
id = "solo"
emits = ["more", "done"]
prompt = "Work."
[handoff]
more = ["solo"]
"""
SETTINGS = """
event_loop.max_iterations = 3
parallel.enabled = true
backend.kind = 'command'
backend.command = '/bin/sh'
backend.args = ['{top}/agent.sh']
backend.prompt_mode = 'stdin'
backend.sandbox = '{sandbox}'
{more}
"""
FIRST = "cat > /dev/null; S=$AUTOLOOP_STATE_DIR; if [ ! -e n1 ]; then touch n1\n{attack}\n"
AGENT = FIRST + '"$AUTOLOOP_BIN" emit more\nelse "$AUTOLOOP_BIN" emit done; fi\n'


@pytest.fixture(params=[one.NAME for one in choice.IMPLEMENTATIONS])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation that works here; an attempt confined by nothing else."""
    if why := choice.probe(request.param):
        pytest.skip(f"{request.param} does not work here: {why}")
    one = next(one for one in choice.IMPLEMENTATIONS if request.param == one.NAME)
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", (one,))
    return request.param


@pytest.fixture
def coterie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Coterie:
    """The command, in a repository; gives the status and what it said."""
    repository(tmp_path / "work")
    (tmp_path / "victim").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        status = app.main(list(words))
        said = capsys.readouterr()
        return status, said.out + said.err

    return call


def loop(top: Path, attack: str, *, name: str = "lp", sandbox: str = "auto", more: str = "") -> Path:
    """A loop whose agent makes *attack* in its first turn, and completes in the second."""
    folder = top / "work" / name
    folder.mkdir(exist_ok=True)
    (folder / "topology.toml").write_text(TOPOLOGY)
    (folder / "autoloops.toml").write_text(SETTINGS.format(top=top, sandbox=sandbox, more=more))
    (top / "agent.sh").write_text(AGENT.format(attack=attack))
    git(top / "work", "add", "--all")
    git(top / "work", "commit", "--quiet", "--allow-empty", "--message", "loop")
    return folder


def records(top: Path) -> list[dict[str, Any]]:
    [path] = (top / "work").glob(".autoloop/runs/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


FORGED = """
echo '{{"kind":"learning","id":"m1","text":"FORGED"}}' > $S/memory.jsonl
echo '{{"kind":"task","id":"t1","text":"FORGED","status":"open"}}' > $S/tasks.jsonl
ln -s {top}/victim $S/waves
mkdir -p $S/worktrees/evil && echo '{{}}' > $S/worktrees/evil/meta.json
"""


@pytest.mark.slow
def test_the_folders_of_the_owner_are_not_there_for_an_agent(tmp_path: Path, coterie: Coterie) -> None:
    """In the first run of a checkout, too: no forged memory, task or work tree, and no link instead of a folder."""
    if not choice.working() or not choice.working().PROTECTS:  # type: ignore[union-attr]
        pytest.skip("Landlock cannot protect files in a folder that may be written, and says so")
    loop(tmp_path, FORGED.format(top=tmp_path))
    status, said = coterie("run", "lp", "go")

    state = tmp_path / "work" / ".autoloop"
    assert status == 0, said
    assert "FORGED" not in coterie("inspect", "last", "memory")[1]
    assert not (state / "waves").is_symlink()
    assert not (state / "worktrees" / "evil").exists()
    assert (state / "tasks.jsonl").read_bytes() == b""


WAVE = """
rm -rf $S/waves; ln -s {top}/victim $S/waves
rm -f $S/journal.jsonl; ln -s {top}/victim/journal $S/journal.jsonl
"$AUTOLOOP_BIN" emit more.parallel "- one
- two"
exit 0
"""


@pytest.mark.slow
def test_the_owner_writes_through_no_link(tmp_path: Path, coterie: Coterie, sandbox: str) -> None:
    """Not what it tells of a wave, and not the file of the earlier format, whatever the sandbox could prevent."""
    loop(tmp_path, WAVE.format(top=tmp_path))
    status, said = coterie("run", "lp", "go")

    assert status == 0, said
    assert any(record["topic"] == "wave.start" for record in records(tmp_path))
    assert list((tmp_path / "victim").iterdir()) == []


DEEP = """python3 -c "
import os
os.chdir(os.environ['TMPDIR'])
for _ in range(3000):
    os.mkdir('d')
    os.chdir('d')
" """


@pytest.mark.slow
def test_folders_of_any_depth_crash_no_turn(tmp_path: Path, coterie: Coterie, sandbox: str) -> None:
    """Those in the temporary folder are removed with it."""
    loop(tmp_path, DEEP)
    status, said = coterie("run", "lp", "go")

    assert status == 0, said
    failed = [record for record in records(tmp_path) if record["topic"] == "turn.failed"]
    assert not [record for record in failed if record["turn"].startswith("iteration")]
    assert not list((tmp_path / "work").glob(".autoloop/runs/*/turns/*/own/*"))


EVIL = "printf \"backend.sandbox = 'off'\\nnotify.command = ['touch', '{top}/SPRUNG']\\n\""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["other/autoloops.toml", ".autoloop/overrides/other.toml"])
def test_settings_that_a_flow_leaves_count_for_no_later_loop(
    tmp_path: Path, coterie: Coterie, sandbox: str, place: str
) -> None:
    """Until an operator trusts them as they are; the error is the line to type."""
    loop(tmp_path, "true", name="other")
    (tmp_path / "work" / place).unlink(missing_ok=True)
    (tmp_path / "plant.sh").write_text(f"mkdir -p $(dirname {place}); {EVIL.format(top=tmp_path)} > {place}\n")
    (tmp_path / "work" / "t.at").write_text(
        f'topology t : [pipeline] {{\n  agent a {{ extensions {{ coterie {{ command: ["sh", "{tmp_path}/plant.sh"]'
        " sandbox: auto } } }\n  flow { a }\n}\n"
    )
    assert coterie("run", "t.at", "go")[0] == 0
    planted = tmp_path / "work" / place
    assert "SPRUNG" in planted.read_text()

    status, said = coterie("run", "other", "go")
    assert status != 0
    assert "an agent could have written it" in said
    assert "coterie config trust" in said
    assert not (tmp_path / "SPRUNG").exists()

    status, said = coterie("config", "trust", place)
    assert status == 0, said
    assert "notify.command" in said
    assert "an agent could have written it" not in coterie("config", "show", "--project", "other")[1]


@pytest.mark.slow
def test_a_program_of_notify_that_an_agent_changed_is_not_started(
    tmp_path: Path, coterie: Coterie, sandbox: str
) -> None:
    """It would run without the sandbox: the run says which file to read and to trust; then it is started."""
    hook = tmp_path / "work" / "hook.sh"
    hook.write_text("#!/bin/sh\necho mine >> ../SAID\n")
    hook.chmod(0o755)
    loop(tmp_path, "true", more="notify.command = ['./hook.sh']")
    assert coterie("run", "lp", "go")[0] == 0
    (tmp_path / "work" / "n1").unlink()

    loop(tmp_path, "echo 'echo evil >> ../SAID' >> hook.sh", more="notify.command = ['./hook.sh']")
    status, said = coterie("run", "lp", "go")
    assert status == 0, said
    assert f"notify.command: ./hook.sh is not started: it executes {hook}, and an agent could have" in said
    assert (tmp_path / "SAID").read_text() == "mine\n"

    assert coterie("config", "trust", "hook.sh")[0] == 0
    assert coterie("run", "lp", "go")[0] == 0
    assert (tmp_path / "SAID").read_text() == "mine\nmine\nevil\n"


FLOW = """topology t : [pipeline] {{
  agent writer {{ extensions {{ coterie {{ command: ["sh", "{top}/write.sh"]  sandbox: auto }} }} }}
  agent second {{ extensions {{ coterie {{ command: ["sh", "second.sh"]  sandbox: {sandbox} }} }} }}
  flow {{ writer -> second }}
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["off", "auto"])
def test_an_agent_without_a_sandbox_does_not_start_what_another_wrote(
    tmp_path: Path, coterie: Coterie, sandbox: str, mode: str
) -> None:
    """With a sandbox its program is work as all else."""
    work = tmp_path / "work"
    (work / "second.sh").write_text("true\n")
    (tmp_path / "write.sh").write_text("echo 'echo x > ran' > second.sh\n")
    (work / "t.at").write_text(FLOW.format(top=tmp_path, sandbox=mode))
    status, said = coterie("run", "t.at", "go")

    assert (status == 0) is (mode == "auto"), said
    assert (work / "ran").exists() is (mode == "auto")
    assert ("sh is not started without a sandbox: it executes" in said) is (mode == "off")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--max-iterations", "1")], ids=["run", "operator"])
def test_what_a_run_merges_counts_as_written_by_its_agents(
    tmp_path: Path, coterie: Coterie, sandbox: str, words: tuple[str, ...]
) -> None:
    """Git writes it after the attempt; an operator who merges it by command has taken it."""
    loop(tmp_path, "echo evil > hook.sh; git add hook.sh; git commit --quiet --message hook\n")
    (tmp_path / "work" / "mine.sh").write_text("mine")
    assert coterie("run", "lp", "go", "--worktree", *words)[0] == (3 if words else 0)
    hook = tmp_path / "work" / "hook.sh"
    if words:
        assert coterie("worktree", "merge", "last")[0] == 0

    assert hook.read_text() == "evil\n"
    assert (agent_writes.writer_of(hook) == "") is bool(words)
    assert agent_writes.writer_of(tmp_path / "work" / "mine.sh") == ""


@pytest.mark.slow
def test_a_sandbox_can_be_required_in_a_work_tree(tmp_path: Path, coterie: Coterie, sandbox: str) -> None:
    """Of a loop, too: its state directory is not in the tree, and its agents do not write it."""
    loop(tmp_path, "echo x > $S/evil; true", sandbox="required")
    status, said = coterie("run", "lp", "go", "--worktree")

    assert status == 0, said
    assert "failed (refused)" not in said
    assert not (tmp_path / "work" / ".autoloop" / "evil").exists()


GATE = "event_loop.gates = [['sh', '{top}/work/check.sh']]\nevent_loop.gate_sandbox = '{mode}'"


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "confined"), [("same", True), ("required", True), ("off", False)])
def test_a_gate_runs_where_the_agent_ran(tmp_path: Path, coterie: Coterie, mode: str, confined: bool) -> None:
    """It executes what the agent wrote: it reads no home, and reaches neither the run nor what the owner reads."""
    if not choice.working() or not choice.working().PROTECTS:  # type: ignore[union-attr]
        pytest.skip("needs an implementation without gaps")
    check = (
        f"cat {tmp_path}/home/secret >> seen 2>&1; echo x > {tmp_path}/home/evil; cp {tmp_path}/work/.autoloop/runs"
        '/*/journal.jsonl copied; echo "token=$COTERIE_TOKEN folder=$COTERIE_RUN_DIR" >> seen; true'
    )
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "secret").write_text("SECRET")
    loop(tmp_path, f"cat > check.sh <<'E'\n{check}\nE", more=GATE.format(top=tmp_path, mode=mode))
    status, said = coterie("run", "lp", "go")

    assert status == 0, said
    assert any(record["topic"] == "gate.checked" and record["passed"] for record in records(tmp_path))
    seen = (tmp_path / "work" / "seen").read_text()
    assert ("SECRET" not in seen) is confined
    assert (tmp_path / "home" / "evil").exists() is not confined
    assert "token= folder=\n" in seen
    assert (tmp_path / "work" / "copied").exists() is not confined


TOOLS = """
mkdir -p .claude .husky sub; echo '{}' > .claude/settings.json; echo x > .envrc; echo x > .husky/pre-commit
echo x > sub/AGENTS.md; echo x > plain.txt
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--worktree",)], ids=["here", "worktree"])
def test_a_run_says_which_files_of_the_users_tools_it_changed(
    tmp_path: Path, coterie: Coterie, sandbox: str, words: tuple[str, ...]
) -> None:
    """Settings of agents, editors, shells and hooks are work that may be written, and a reason to look."""
    loop(tmp_path, TOOLS + "git add --all && git commit --quiet --message work\n")
    (tmp_path / "work" / "CLAUDE.md").write_text("mine")
    status, said = coterie("run", "lp", "go", *words)

    assert status == 0, said
    [line] = [line for line in said.splitlines() if "your own tools obey" in line]
    assert all(name in line for name in (".claude/settings.json", ".envrc", ".husky/pre-commit"))
    assert "plain.txt" not in line
    assert "CLAUDE.md" not in line
