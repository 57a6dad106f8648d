"""Each field of `plugins:` in topology.yaml changes what a running system does."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Say

from coterie import AgentProcess, CoterieError, Runtime
from coterie.agents.actors.message import Message
from coterie.team.topology import plugin_names

NONE = "-"
"""Asks for no model."""


class Asker(AgentProcess):
    """Asks the model that the message names, and counts its messages."""

    async def handle(self, message: Message) -> Message | None:
        self.state["n"] = self.state.get("n", 0) + 1
        await self.checkpoint()
        model = message.payload
        said = (await self.llm.chat(model, "x")).content if model != NONE else ""
        return self.reply({"n": self.state["n"], "said": said, "tools": [tool.name for tool in self.tools]})


TREE = """
supervision:
  name: root
  children:
    - agent: { name: asker, type: Asker }
"""

MODULE = """
import json, pathlib

class Store:
    def __init__(self, file):
        self.file = pathlib.Path(file)
    async def get(self, agent_name):
        return json.loads(self.file.read_text()) if self.file.exists() else None
    async def set(self, agent_name, state):
        self.file.write_text(json.dumps(state))

class Echo:
    default_model = "echo"
    def __init__(self, prefix=""):
        self.prefix = prefix
    async def chat(self, model, messages, tools=None):
        from coterie.agents.backends.models.response import ModelResponse
        return ModelResponse(content=f"{self.prefix}{model}")

class Sink:
    def __init__(self, file):
        self.file = pathlib.Path(file)
    def export(self, spans):
        with self.file.open("a") as file:
            file.writelines(span.name + "\\n" for span in spans)

def shout(text: str) -> str:
    "Shout."
    return text.upper()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the module `plugged`, which a package registers."""
    (tmp_path / "plugged.py").write_text(MODULE)
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    points = {"model": "echo = plugged:Echo", "state": "store = plugged:Store", "exporter": "sink = plugged:Sink"}
    points["tool"] = "shout = plugged:shout"
    (info / "entry_points.txt").write_text("".join(f"[coterie.{kind}]\n{one}\n" for kind, one in points.items()))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    plugin_names.installed.cache_clear()
    yield tmp_path
    plugin_names.installed.cache_clear()
    sys.modules.pop("plugged", None)


def ask(plugins: str, *models: str) -> list[Any]:
    """Start the system with *plugins*, ask it for each of *models*, and return the answers."""
    Path("topology.yaml").write_text(plugins + TREE)

    async def main() -> list[Any]:
        async with Runtime.from_config("topology.yaml", agent_classes={"Asker": Asker}) as runtime:
            return [(await runtime.ask("asker", model)).payload for model in models]

    return asyncio.run(main())


def test_without_plugins_states_are_kept_in_memory_and_there_is_no_model() -> None:
    """A second start begins anew."""
    assert [one["n"] for one in ask("", NONE, NONE)] == [1, 2]
    assert [one["n"] for one in ask("", NONE)] == [1]
    with pytest.raises(CoterieError, match="this system has no model provider"):
        ask("", "claude-x")


@pytest.mark.parametrize(
    ("state", "file"),
    [
        ("{ type: sqlite, config: { db_path: deep/state.db } }", "deep/state.db"),
        ("{ type: sqlite }", "agency_state.db"),
        ("{ type: plugged.Store, config: { file: own.json } }", "own.json"),
        ("{ type: store, config: { file: own.json } }", "own.json"),
    ],
)
def test_the_state_is_in_the_store_that_is_declared(state: str, file: str) -> None:
    """`state.type` and `state.config`: the next start finds it there."""
    assert [one["n"] for one in ask(f"plugins: {{ state: {state} }}", NONE)] == [1]
    assert Path(file).exists()
    assert [one["n"] for one in ask(f"plugins: {{ state: {state} }}", NONE)] == [2]


def test_in_memory_may_be_written_out() -> None:
    """It is the default."""
    assert [one["n"] for one in ask("plugins: { state: { type: in_memory } }", NONE)] == [1]
    assert [one["n"] for one in ask("plugins: { state: { type: in_memory } }", NONE)] == [1]


@pytest.mark.parametrize("type", ["plugged.Echo", "echo"])
def test_a_model_provider_of_a_package(type: str) -> None:
    """`models[].type` as a dotted path or an entry point, `models[].config` as its arguments."""
    plugins = f"plugins: {{ models: [{{ type: {type}, config: {{ prefix: 'hi ' }} }}] }}"
    assert [one["said"] for one in ask(plugins, "", "other")] == ["hi echo", "hi other"]


def test_the_settings_of_anthropic_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """`default_model`, `max_tokens` and `max_retries`, as on the page."""
    config = "default_model: claude-sonnet-4-6, max_tokens: 4096, max_retries: 1"
    plugins = f"plugins: {{ models: [{{ type: anthropic, config: {{ {config} }} }}] }}"
    busy = Refuse(429, "rate_limit_error", "slow down", {"retry-after-ms": "1"})
    with FakeModels(busy, Say("Yes.")) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        assert [one["said"] for one in ask(plugins, "")] == ["Yes."]
        assert [(one["model"], one["max_tokens"]) for one in models.requests] == [("claude-sonnet-4-6", 4096)] * 2
        models.requests.clear()
        with pytest.raises(CoterieError, match="limits the rate"):
            ask(plugins.replace("max_retries: 1", "max_retries: 0"), "")


def test_a_key_is_read_from_the_environment() -> None:
    """Without it nothing starts."""
    with pytest.raises(CoterieError, match="ANTHROPIC_API_KEY is not set"):
        ask("plugins: { models: [{ type: anthropic }] }", NONE)


def test_each_provider_serves_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may be declared, and all are used."""
    plugins = "plugins: { models: [{ type: anthropic }, { type: openai }, { type: plugged.Echo }] }"
    with FakeModels(Say("Yes.")) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        said = [one["said"] for one in ask(plugins, "claude-x", "gpt-x", "neither", "")]
        assert said == ["Yes.", "Yes.", "neither", "echo"]
        assert [one["model"] for one in models.requests] == ["claude-x", "gpt-x"]


def test_exporters_get_spans(capsys: pytest.CaptureFixture[str]) -> None:
    """`exporters[].type` built in, by dotted path and by entry point, and their `config`."""
    ask("plugins: { exporters: [{ type: console }, { type: plugged.Sink, config: { file: a } }] }", NONE)
    out, err = capsys.readouterr()
    assert out == ""
    assert "process asker  message from _runtime" in err
    assert "process asker" in Path("a").read_text().splitlines()

    ask("plugins: { exporters: [{ type: sink, config: { file: b } }] }", NONE)
    assert "process asker" in Path("b").read_text().splitlines()
    ask("plugins: { exporters: [{ type: console, config: { only_errors: true } }] }", NONE)
    assert capsys.readouterr() == ("", "")


def test_tools_are_given_to_agents() -> None:
    """`tools[].type`."""
    assert ask("plugins: { tools: [{ type: plugged.shout }] }", NONE)[0]["tools"] == ["shout"]
    assert ask("plugins: { tools: [{ type: shout }] }", NONE)[0]["tools"] == ["shout"]


def test_a_plugin_that_is_missing_starts_nothing() -> None:
    """With its place and a suggestion."""
    with pytest.raises(
        CoterieError, match=r"topology.yaml:1:\d+: error.*no state plugin 'sqlit'(.|\n)*did you mean 'sqlite'\?"
    ):
        ask("plugins: { state: { type: sqlit } }", NONE)
