"""A script says where it is wrong, and what would be right."""

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.backends.scripts import read_script
from coterie.errors import UsageError
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.topology.model import ArrowGroup

GOOD: dict[str, Any] = {
    "writer": [{"text": "a draft", "seconds": 3}, {"fail": "timeout"}, {}],
    "panel/critic": [
        {"outputs": {"score": 4}, "emits": [{"topic": "x.y", "payload": [1]}], "usage": {"output_tokens": 7}},
        {"fail": {"kind": "quota"}},
    ],
}
PLAN = Plan(
    name="team",
    agents={
        "writer": AgentPlan(name="writer"),
        "panel": AgentPlan(
            name="panel", kind="topology", child=Plan(name="p", agents={"critic": AgentPlan(name="critic")})
        ),
    },
)


def written(folder: Path, data: Any) -> Path:
    path = folder / "script.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def complaint(folder: Path, data: Any, plan: Plan | None = None) -> str:
    """What is said about *data*, after the file's name."""
    with pytest.raises(UsageError) as caught:
        read_script(written(folder, data), plan)
    said = str(caught.value)
    assert said.startswith(str(folder / "script.json"))
    return said.removeprefix(str(folder / "script.json"))


def test_a_good_script_is_given_as_it_stands(tmp_path: Path) -> None:
    """Every key, nested agents, and failures in both forms."""
    assert read_script(written(tmp_path, GOOD), PLAN) == GOOD


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{\n  oops", ":2:3: the script is not JSON: Expecting property name enclosed in double quotes"),
        ([], ": a script is an object that maps agents to lists of entries"),
        ({"a": {"text": "x"}}, ": a: expected `array`, got `object`"),
        ({"a": "x"}, ": a: expected `array`, got `str`"),
        ({"a": []}, ": a: the list is empty; leave the agent out to let it answer by itself"),
        ({"a": [{}, 3]}, ": a[1]: expected `object`, got `int`"),
        ({"a": [{"txt": "x"}]}, ": a[0]: unknown key 'txt'; did you mean 'text'?"),
        (
            {"a": [{"zzz": 1}]},
            ": a[0]: unknown key 'zzz'; known keys: text, outputs, seconds, fail, emits, usage",
        ),
        ({"a": [{"text": None}]}, ": a[0].text: expected `str`, got `null`"),
        ({"a": [{"outputs": []}]}, ": a[0].outputs: expected `object`, got `array`"),
        ({"a": [{"seconds": -1}]}, ": a[0].seconds: expected `float` >= 0"),
        ({"a": [{"seconds": True}]}, ": a[0].seconds: expected `float`, got `bool`"),
        ('{"a": [{"seconds": Infinity}]}', ": a[0].seconds: expected `float` <= "),
        ({"a": [{"fail": 3}]}, ": a[0].fail: expected `str | object`, got `int`"),
        ({"a": [{"fail": {"kind": "time-out"}}]}, ": a[0].fail: unknown kind of failure 'time-out'; did you mean"),
        ({"a": [{"emits": {}}]}, ": a[0].emits: expected `array`, got `object`"),
        ({"a": [{"emits": [{"topic": "x"}, {}]}]}, ": a[0].emits[1]: object missing required field `topic`"),
        ({"a": [{"emits": [{"topik": "x"}]}]}, ": a[0].emits[0]: unknown key 'topik'; did you mean 'topic'?"),
        ({"a": [{"usage": {"tokens": 1}}]}, ": a[0]: usage: unknown key 'tokens'; did you mean"),
        (
            {"a": [{"usage": {"input_tokens": 1.5}}]},
            ": a[0]: usage.input_tokens: expected a whole number, got 1.5",
        ),
    ],
)
def test_a_bad_script_names_the_place(tmp_path: Path, data: Any, said: str) -> None:
    """File, agent, entry and key; and what was probably meant."""
    assert complaint(tmp_path, data).startswith(said)


def test_the_human_at_a_spent_loop_has_a_part(tmp_path: Path) -> None:
    """Whoever asks for `on-max human` can script what that human decides."""
    loop = ArrowGroup(source="r", targets=("w",), max=1, on_max="human")
    plan = Plan(name="team", agents={}, coordination=FlowPlan(mentions=("r", "w"), groups=(loop,)))
    script = {"on-max:r": [{"outputs": {"decision": "again"}}]}

    assert read_script(written(tmp_path, script), plan) == script


def test_an_agent_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Given the plan, a misspelt agent is no silence."""
    bad = {"panel/critc": [{}]}

    assert complaint(tmp_path, bad, PLAN) == ": team has no agent 'panel/critc'; did you mean 'panel/critic'?"
    assert complaint(tmp_path, {"x": [{}]}, PLAN) == ": team has no agent 'x'; it has writer, panel, panel/critic"
    assert read_script(written(tmp_path, bad)) == bad


def test_a_script_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A missing file and bytes that are no text."""
    with pytest.raises(UsageError, match=r"none\.json: the script cannot be read: No such file"):
        read_script(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UsageError, match=r"bytes\.json: the script is not UTF-8 text: .* at byte 7"):
        read_script(tmp_path / "bytes.json")
