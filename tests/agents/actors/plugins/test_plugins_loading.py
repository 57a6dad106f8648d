"""Plugins by built-in name, entry point and dotted path."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.agents.actors.plugins.loading import faults, make, plan_of
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.plugins.providers import AnthropicProvider, OpenAIProvider
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.state.sqlite import SQLiteStateStore
from coterie.errors import PluginError
from coterie.team.planning.system import PluginPlan, PluginsPlan
from coterie.team.topology import plugin_names

MODULE = """
class Store:
    def __init__(self, url="", *, size=1):
        self.given = (url, size)
    async def get(self, agent_name): return None
    async def set(self, agent_name, state): pass

class Chatty:
    def __init__(self, **settings):
        self.given = settings
    async def chat(self, model, messages, tools=None): pass

class Quiet:
    pass

class Angry:
    def __init__(self):
        raise RuntimeError("not today")

class Leaving:
    def __init__(self):
        raise SystemExit(3)

def exporter(): return Sink()
class Sink:
    def export(self, spans): pass

def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b

class Scale:
    "Multiply."
    name = "scale"
    def __init__(self, factor: int = 1):
        self.factor = factor
    def __call__(self, n: int) -> int:
        return n * self.factor

number = 3
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path with the module `plugged`, and a package that registers its classes."""
    (tmp_path / "plugged.py").write_text(MODULE)
    (tmp_path / "a_script.py").write_text("raise SystemExit(3)")
    register(tmp_path, "one", "[coterie.state]\nredis = plugged:Store\n[coterie.model]\nmine = plugged:Chatty\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugin_names.installed.cache_clear()
    yield tmp_path
    plugin_names.installed.cache_clear()
    sys.modules.pop("plugged", None)


def register(folder: Path, package: str, points: str) -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    importlib.invalidate_caches()


def plan(type: str, **config: Any) -> PluginPlan:
    return PluginPlan(type=type, config=config)


def test_a_built_in_plugin_is_made_with_its_config(tmp_path: Path) -> None:
    """Each kind by its name."""
    assert isinstance(make("state", plan("in_memory")), InMemoryStateStore)
    assert isinstance(make("state", plan("sqlite", db_path=str(tmp_path / "x.db"))), SQLiteStateStore)
    assert make("model", plan("anthropic", default_model="claude-x")).default_model == "claude-x"
    assert isinstance(make("model", plan("openai")), OpenAIProvider)
    assert make("exporter", plan("console")) is not None


def test_an_entry_point_is_made_with_its_config(modules: Path) -> None:
    """By the name under which a package registered it."""
    assert make("state", plan("redis", url="redis://x", size=2)).given == ("redis://x", 2)
    assert make("model", plan("mine", anything=1)).given == {"anything": 1}


@pytest.mark.parametrize("path", ["plugged.Store", "plugged:Store"])
def test_a_class_by_its_dotted_path(modules: Path, path: str) -> None:
    """With a dot or a colon before its name."""
    assert make("state", plan(path, size=3)).given == ("", 3)


def test_a_function_may_make_a_plugin(modules: Path) -> None:
    """A factory is as good as a class."""
    assert make("exporter", plan("plugged.exporter")).export([]) is None


def test_a_tool_is_a_function_or_an_object(modules: Path) -> None:
    """A function is the tool itself; a class is constructed with its config."""
    assert make("tool", plan("plugged.add"))(1, 2) == 3
    assert make("tool", plan("plugged.Scale", factor=4))(2) == 8


def test_a_built_in_name_is_not_taken_over(modules: Path) -> None:
    """Installing a package changes no plugin of a file that does not name it."""
    register(modules, "two", "[coterie.state]\nsqlite = plugged:Store\n")

    assert isinstance(make("state", plan("sqlite")), SQLiteStateStore)


@bundle(
    ("kind", "one", "message"),
    [
        ("model", plan("antropic"), "there is no model plugin 'antropic'; did you mean 'anthropic'?"),
        ("state", plan("postgres"), "known names: in_memory, redis, sqlite; install the package that registers it"),
        ("tool", plan("search"), "'search'; install the package that registers it, or write a dotted path"),
        ("state", plan("nowhere.Store"), "No module named 'nowhere'; the working directory is searched, too"),
        ("state", plan("plugged.Missing"), "it cannot be imported: AttributeError: module 'plugged' has no"),
        ("state", plan("plugged.number"), "'plugged.number' is of type int, not a class"),
        ("state", plan("plugged.Quiet"), "Quiet is no state plugin: it lacks the method 'get'"),
        ("exporter", plan("plugged.Store"), "Store is no exporter plugin: it lacks the method 'export'"),
        ("state", plan("plugged.Angry"), "it cannot be constructed: RuntimeError: not today"),
        ("state", plan("plugged.Leaving"), "it cannot be constructed: RuntimeError: SystemExit: 3"),
        ("state", plan("a_script.Store"), "it cannot be imported: RuntimeError: SystemExit: 3"),
        ("state", plan("redis", sise=1), "it has no setting 'sise'; did you mean 'size'?"),
        ("state", plan("sqlite", foo="x"), "it has no setting 'foo'; it has db_path"),
        ("state", plan("in_memory", size=1), "it has no setting 'size'; it has none"),
        ("model", plan("anthropic", max_retires=1), "it has no setting 'max_retires'; did you mean 'max_retries'?"),
        ("model", plan("anthropic", max_turns=1), "it has no setting 'max_turns'"),
        ("model", plan("anthropic", max_tokens="many"), "max_tokens must be a whole number above 0, not 'many'"),
        ("model", plan("anthropic", max_retries=-1), "max_retries must be a whole number from 0, not -1"),
        ("model", plan("anthropic", api_key="sk-ant-0123456789"), "would be in the file and in the journal; set it in"),
        ("tool", plan("plugged.add", a=1), "a function has no config; make it a class with __call__"),
        ("tool", plan("plugged.Quiet"), "it lacks a method '__call__'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plugin_is_said(modules: Path, kind: str, one: PluginPlan, message: str) -> None:
    """With its place in the file and what to do."""
    with pytest.raises(PluginError) as caught:
        make(kind, one, "plugins.here")
    assert message in str(caught.value)
    assert str(caught.value).startswith("plugins.here")


def test_two_packages_that_register_one_name_are_both_named(modules: Path) -> None:
    """Which is meant cannot be guessed; the same class twice is no conflict."""
    register(modules, "two", "[coterie.state]\nredis = plugged:Quiet\n[coterie.model]\nmine = plugged:Chatty\n")
    plugin_names.installed.cache_clear()

    with pytest.raises(
        PluginError, match=r"several packages register the state plugin 'redis': plugged:.* and plugged:"
    ):
        make("state", plan("redis"))
    assert make("model", plan("mine"))


def test_names_are_known_without_importing(modules: Path) -> None:
    """What `validate` uses: entry points are read, dotted paths are believed."""
    assert plugin_names.unknown_name("state", "redis") is None
    assert plugin_names.unknown_name("state", "plugged.Store") is None
    assert plugin_names.unknown_name("state", "nonesuch") is not None
    assert "plugged" not in sys.modules


def test_all_faults_are_found_without_constructing_anything(modules: Path) -> None:
    """What `validate --import` uses."""
    plans = PluginsPlan(
        models=(plan("anthropic", nonesuch=1), plan("mine")),
        tools=(plan("plugged.add"), plan("nowhere.tool")),
        exporters=(plan("cnsole"),),
        state=plan("plugged.Angry"),
    )

    assert [fault.place for fault in faults(plans)] == [
        "plugins.models.0.config.nonesuch",
        "plugins.tools.1",
        "plugins.exporters.0",
    ]


def test_the_plugins_of_a_plan_are_made(modules: Path) -> None:
    """All kinds at once; without any, states are kept in memory."""
    made = Plugins.from_plan(
        PluginsPlan(
            models=(plan("anthropic"), plan("openai")),
            tools=(plan("plugged.add"),),
            exporters=(plan("console"),),
            state=plan("redis"),
        )
    )

    assert [type(one).__name__ for one in made.models.providers] == ["AnthropicProvider", "OpenAIProvider"]
    assert [tool.name for tool in made.tools] == ["add"]
    assert len(made.tracer.exporters) == 1
    assert type(made.state).__name__ == "Store"
    assert isinstance(Plugins.from_plan(PluginsPlan()).state, InMemoryStateStore)


def test_a_plugin_made_in_python_has_the_plan_of_the_file(modules: Path) -> None:
    """Names, arguments by position too, and no key."""
    module = importlib.import_module("plugged")

    assert plan_of("model", AnthropicProvider(default_model="claude-x")) == plan("anthropic", default_model="claude-x")
    assert plan_of("model", AnthropicProvider("claude-x", max_tokens=9)) == plan(
        "anthropic", default_model="claude-x", max_tokens=9
    )
    assert plan_of("model", OpenAIProvider(api_key="sk-0123456789")) == plan("openai")
    assert plan_of("state", SQLiteStateStore("state.db")) == plan("sqlite", db_path="state.db")
    assert plan_of("state", SQLiteStateStore(Path("state.db"))) == plan("sqlite", db_path="state.db")
    assert plan_of("state", InMemoryStateStore()) == plan("in_memory")
    assert plan_of("state", module.Store()) == plan("plugged.Store")
    assert plan_of("tool", module.add) == plan("plugged.add")
