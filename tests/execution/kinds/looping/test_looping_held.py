"""A running loop takes a weaker value of a setting that protects only from a person."""

import json
import subprocess
from pathlib import Path
from typing import Any

import preforked
import pytest
from bundles import bundle
from loop_play import loop_plan, plan_of
from msgspec.structs import replace

from coterie.agents.backends.sandbox import choice
from coterie.team.formats.settings.keys import keys, protecting
from coterie.team.planning.loop import ParallelPlan
from coterie.team.planning.loops.folder import plan_folder
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.protection import strictest

VALUES = {
    "event_loop.max_iterations": ("5", "9", "3"),
    "event_loop.max_iteration_runtime": ("'10m'", "'20m'", "'5m'"),
    "event_loop.max_runtime": ("'10m'", "0", "'5m'"),
    "event_loop.max_cost_usd": ("5", "0", "3"),
    "event_loop.stall_iterations": ("5", "0", "3"),
    "event_loop.max_failures": ("5", "9", "3"),
    "event_loop.gates": ("[['a'], ['b']]", "[['a']]", "[['b'], ['a'], ['c']]"),
    "event_loop.gate_timeout": ("'10m'", "'20m'", "'5m'"),
    "event_loop.gate_sandbox": ("'same'", "'off'", "'required'"),
    "parallel.enabled": ("false", "true", "false"),
    "parallel.max_branches": ("5", "9", "3"),
    "parallel.branch_timeout_ms": ("5000", "9000", "3000"),
    "notify.command": ("['a']", "['b']", "['a']"),
    "backend.kind": ("'pi'", "'command'", "'pi'"),
    "backend.provider": ("'kiro'", "'other'", "'kiro'"),
    "backend.command": ("'a'", "'b'", "'a'"),
    "backend.args": ("['a']", "['b']", "['a']"),
    "backend.agent": ("'plan'", "'bypass'", "'plan'"),
    "backend.queue": ("'a'", "'b'", "'a'"),
    "backend.timeout_ms": ("5000", "9000", "3000"),
    "backend.trust_all_tools": ("false", "true", "false"),
    "backend.sandbox": ("'required'", "'off'", "'no-network'"),
    "backend.attention": ("'ask'", "''", "'ask'"),
    "backend.allow": ("['Edit', 'Read']", "['Edit', 'Bash']", "['Edit']"),
    "backend.attention_timeout_ms": ("5000", "9000", "5000"),
    "backend.attention_policy": ("'fail'", "'allow'", "'deny'"),
}
"""For each setting that protects a value, a weaker one, and one that is as strict."""
ACP = (
    "backend.kind = 'acp'\nbackend.command = 'agent'\nreview.enabled = true\nparallel.enabled = true\n"
    "event_loop.gates = [['a']]\n"
)


def planned(folder: Path, name: str, value: str) -> Plan:
    lines = [line for line in ACP.splitlines() if not line.startswith(f"{name} ")]
    (folder / "topology.toml").write_text('[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\n')
    (folder / "autoloops.toml").write_text("\n".join([*lines, f"{name} = {value}"]) + "\n")
    plan, found = plan_folder(folder, work_dir=folder, env={"HOME": str(folder)})
    assert plan is not None, found
    return plan


@bundle("name", list(VALUES), ids=str)
def test_a_weaker_value_is_held_back_and_a_stricter_one_is_not(tmp_path: Path, name: str) -> None:
    """Through the files, for each setting that protects."""
    first, weaker, stricter = (planned(tmp_path, name, value) for value in VALUES[name])
    merged, held = strictest(first, weaker)

    assert held, "it is held back"
    assert strictest(first, weaker, held) == (weaker, ())
    assert replace(merged.coordination, given=first.coordination.given) == first.coordination
    assert merged.agents == first.agents
    assert strictest(first, stricter) == (stricter, ())


@bundle("name", ["backend.attention_timeout_ms", "backend.sandbox", "backend.timeout_ms", "event_loop.gates"], ids=str)
def test_a_weaker_value_that_a_person_has_set_is_taken(tmp_path: Path, name: str) -> None:
    """The change names the setting, and the plan the option that it becomes."""
    first, weaker, _ = (planned(tmp_path, name, value) for value in VALUES[name])

    assert strictest(first, weaker, changed=[name]) == (weaker, ())


def test_each_protecting_setting_has_a_case() -> None:
    """A review's are those of a backend; the addresses of a cluster are in no plan."""
    names = {name.replace("review.", "backend.") for name in protecting()} - {"cluster.url"}
    assert names == set(VALUES)
    assert names <= keys().keys()


def test_what_is_no_setting_protects_and_texts_do_not() -> None:
    """Environment, programs of teams and servers; prompts, models and routing are taken."""
    old = plan_of(loop_plan())
    agent = old.agents["planner"]
    for change in ({"env": {"PATH": "/evil"}}, {"cwd": "/"}, {"steps": (("rm",),)}, {"options": {"mcp_servers": {}}}):
        merged, held = strictest(old, replace(old, agents={**old.agents, "planner": replace(agent, **change)}))
        assert merged == old
        assert [name.partition(":")[0] for name, _, _ in held] == ["role planner"]
    new = replace(old, agents={**old.agents, "planner": replace(agent, prompt="Better.", model="other")})
    assert strictest(old, new) == (new, ())


def test_a_new_role_and_a_new_team_have_the_backend_of_a_known_one() -> None:
    """A role that was added is routing; its program is not."""
    old = plan_of(loop_plan())
    evil = AgentPlan(name="evil", backend="command", argv=("/evil",), prompt="Go.", options={"sandbox": "off"})
    team = AgentPlan(name="team", kind="topology", child=Plan(name="t", agents={"evil": evil}))
    merged, held = strictest(old, replace(old, agents={**old.agents, "evil": evil, "team": team}))

    assert held
    assert "evil" in merged.agents
    assert not any("/evil" in agent.argv or agent.child for agent in merged.agents.values())
    assert merged.agents["evil"].prompt == "Go."


def test_waves_are_not_switched_on() -> None:
    old = plan_of(loop_plan())
    merged, [held] = strictest(old, replace(old, coordination=loop_plan(parallel=ParallelPlan(most=99))))

    assert held[0] == "parallel.enabled"
    assert merged == old


AGENT = """#!/bin/sh
cat > /dev/null
[ $AUTOLOOP_ITERATION -gt 1 ] || {{ {attack}; }}
[ $AUTOLOOP_ITERATION -lt 2 ] || "$AUTOLOOP_BIN" emit done
true
"""


def project(top: Path, attack: str, sandbox: str) -> Path:
    (top / "loop").mkdir()
    (top / "loop/topology.toml").write_text(
        'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\n'
    )
    settings = top / "loop/autoloops.toml"
    settings.write_text(
        "event_loop.max_iterations = 3\nevent_loop.gates = [['false']]\nreview.enabled = false\n"
        f"backend.kind = 'command'\nbackend.command = '{top}/agent.sh'\nbackend.prompt_mode = 'stdin'\n"
        f"backend.sandbox = '{sandbox}'\n"
    )
    (top / "agent.sh").write_text(AGENT.format(attack=attack))
    (top / "agent.sh").chmod(0o755)
    return settings


def records(top: Path, prefix: str) -> list[dict[str, Any]]:
    [path] = top.glob(".autoloop/runs/*/journal.jsonl")
    return [one for line in path.read_text().splitlines() if (one := json.loads(line))["topic"].startswith(prefix)]


def coterie(top: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return preforked.run(*words, cwd=top)


@pytest.mark.slow
def test_an_agent_without_a_sandbox_does_not_remove_its_gates(tmp_path: Path) -> None:
    """What it weakened is held back and listed; once an operator takes it, it counts."""
    project(tmp_path, "sed -i 's/^event_loop.gates.*/event_loop.gates = []/' loop/autoloops.toml", "off")
    ended = coterie(tmp_path, "run", "loop", "go")

    assert ended.returncode == 3, ended.stderr
    assert 'event_loop.gates: [["false"]] stays, not []' in ended.stderr
    [held] = records(tmp_path, "config.held")
    assert held["held"] == [["event_loop.gates", '[["false"]]', "[]"]]
    [one] = json.loads(coterie(tmp_path, "attention", "last", "--json").stdout)
    assert (one["kind"], one["id"], one["answers"]) == ("config", "config", ["take", "keep"])

    answered = coterie(tmp_path, "control", "respond", "last", "config", "take")
    assert answered.returncode == 0, answered.stderr
    ended = coterie(tmp_path, "resume", "last", "--add-iterations", "3")
    assert ended.returncode == 0, ended.stderr
    assert records(tmp_path, "config.changed")[-1]["keys"] == ["agent.solo"]
    assert coterie(tmp_path, "attention", "last", "--json").stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(choice.working() is None, reason="no sandbox works here")
def test_a_person_changes_anything_while_all_agents_are_confined(tmp_path: Path) -> None:
    """A limit is raised during the first iteration, whose agent waits for that; nothing is held back."""
    settings = project(tmp_path, "echo changed > ready; while [ ! -e go ]; do sleep 0.05; done", "required")
    settings.write_text(settings.read_text().replace("event_loop.gates = [['false']]\n", ""))
    owner = subprocess.Popen([*preforked.REAL, "run", "loop", "go"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "ready").exists():
        assert owner.poll() is None
    settings.write_text(settings.read_text().replace("max_iterations = 3", "max_iterations = 9"))
    (tmp_path / "go").touch()

    _, said = owner.communicate(timeout=300)
    assert owner.returncode == 0, said
    assert not records(tmp_path, "config.held")
    assert [one["keys"] for one in records(tmp_path, "config.changed")] == [["event_loop.max_iterations"]]


@pytest.mark.slow
def test_what_was_held_back_is_taken_with_the_files(tmp_path: Path) -> None:
    """By `resume --reload`; the agent that removed the gates has done so for itself at last."""
    project(tmp_path, "sed -i 's/^event_loop.gates.*/event_loop.gates = []/' loop/autoloops.toml", "off")
    assert coterie(tmp_path, "run", "loop", "go").returncode == 3

    ended = coterie(tmp_path, "resume", "last", "--reload", "loop", "--add-iterations", "3")

    assert ended.returncode == 0, ended.stderr
    assert coterie(tmp_path, "attention", "last", "--json").stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(("words", "outcome"), [((), 3), (("event_loop.gates=[]",), 0)])
def test_a_setting_that_a_person_changes_by_command_counts(
    tmp_path: Path, words: tuple[str, ...], outcome: int
) -> None:
    """An agent that is not confined removes the gates; that counts only if an operator says so, too."""
    attack = "sed -i 's/^event_loop.gates.*/event_loop.gates = []/' .autoloop/overrides/loop.toml; echo > ready"
    settings = project(tmp_path, f"{attack}; while [ ! -e go ]; do sleep 0.05; done", "off")
    settings.write_text(settings.read_text().replace("event_loop.gates = [['false']]\n", ""))
    (tmp_path / ".autoloop/overrides").mkdir(parents=True)
    (tmp_path / ".autoloop/overrides/loop.toml").write_text("event_loop.gates = [['false']]\n")
    owner = subprocess.Popen([*preforked.REAL, "run", "loop", "go"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "ready").exists():
        assert owner.poll() is None
    for word in words:
        said = coterie(tmp_path, "config", "set", "--repo", "--preset", "loop", word)
        assert "takes it when it next reads its files" in said.stdout, said.stdout + said.stderr
    (tmp_path / "go").touch()

    _, said_by_owner = owner.communicate(timeout=300)
    assert owner.returncode == outcome, said_by_owner
    assert bool(records(tmp_path, "config.held")) is not bool(words)
