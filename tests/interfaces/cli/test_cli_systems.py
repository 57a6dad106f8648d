"""Supervised systems on the command line: the reference page's printed samples, and what its examples give."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from coterie.interfaces.cli import app

PAGE = Path(__file__).parents[2] / "data" / "systems" / "page"

VALIDATED = """\
  Validating topology.yaml

  Structure
  ✔ YAML syntax
  ✔ Supervision section present
  ✔ No empty supervisors
  ✔ Supervision tree well-formed

  Naming
  ✔ All agents named
  ✔ No duplicate names
  ✔ No agent/supervisor name conflicts

  Configuration
  ✔ Strategies valid (ONE_FOR_ALL, ONE_FOR_ONE)
  ✔ Backoff policies valid
  ✔ Transport config valid — nats

  ✔ Valid  4 agents · 2 supervisors · nats
"""
SHOWN = """\
  Coterie Topology: topology.yaml

  root ONE_FOR_ONE  restarts: 3/60.0s  backoff: constant
  ├── research_sup ONE_FOR_ONE  restarts: 5/30.0s  backoff: exponential
  │   └── researcher  myapp.WebResearcher  @worker
  ├── orchestrator  myapp.Orchestrator
  └── summarizer    myapp.Summarizer

  ──────────────────────────────────────────
  Transport   nats  nats://localhost:4222
  Plugins     anthropic  sqlite
  Topology    3 agents  ·  2 supervisors  ·  1 processes
"""
COMPARED = """\
  Diff: staging.yaml → production.yaml

  Transport
  ~  transport/@type                       zmq → nats
  +  transport/@servers                    nats://prod:4222

  Supervision
  ~  /root/research_sup/@max_restarts      3 → 5
  ~  /root/research_sup/@backoff           CONSTANT → EXPONENTIAL

  3 changed  ·  1 added
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def page(name: str, to: str = "topology.yaml") -> None:
    shutil.copy(PAGE / name, to)


def test_validate_prints_the_sample_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of checks, and the size of the system."""
    page("validated.yaml")

    assert app.main(["topology", "validate", "topology.yaml"]) == 0
    assert capsys.readouterr() == (VALIDATED, "")


def test_show_prints_the_sample_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The tree with the policies of its supervisors."""
    page("shown.yaml")

    assert app.main(["topology", "show", "topology.yaml"]) == 0
    assert capsys.readouterr() == (SHOWN, "")


def test_diff_prints_the_sample_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary counts the lines; case, the order of keys and defaults are no difference."""
    page("staging.yaml", "staging.yaml")
    page("prod.yaml", "production.yaml")

    assert app.main(["topology", "diff", "staging.yaml", "production.yaml"]) == 0
    assert capsys.readouterr() == (COMPARED, "")
    assert app.main(["topology", "diff", "--exit-code", "staging.yaml", "production.yaml"]) == 1


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("full.yaml", "✔ Valid  3 agents · 2 supervisors · in_process · 7 warnings"),
        ("affinity.yaml", "✔ Valid  2 agents · 1 supervisor · in_process · 1 warning"),
        ("equivalent.yaml", "✔ Valid  3 agents · 2 supervisors · nats"),
        ("production.yaml", "✔ Valid  5 agents · 3 supervisors · nats"),
    ],
)
def test_the_examples_of_the_page_are_valid(name: str, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With warnings for what has no effect with their transport."""
    page(name)

    assert app.main(["topology", "validate", "topology.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip() == verdict


def test_an_error_is_a_line_of_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    """It replaces the check that failed, and has the position."""
    text = (PAGE / "validated.yaml").read_text().replace("ONE_FOR_ALL", "ONE_FOR_NONE")
    Path("topology.yaml").write_text(text.replace("summarizer", "orchestrator"))

    assert app.main(["topology", "validate", "topology.yaml"]) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "✔ No duplicate names" not in lines
    assert "✗ topology.yaml:14:8: error[duplicate-name]: the agent name 'orchestrator' is used twice" in lines
    assert not any(line.startswith("✔ Strategies valid") for line in lines)
    assert lines[-1] == "✗ Invalid  2 errors"


@pytest.mark.parametrize("transport", ["nats", "{type: nats, servers: []}", "{pub_addr: 127.0.0.1}"])
def test_a_wrong_value_of_the_transport_or_a_delay_fails_its_check(
    transport: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check that passed is not listed beside its own error."""
    Path("topology.yaml").write_text(
        f"transport: {transport}\nsupervision:\n  name: root\n  backoff_base: -1\n  children:\n"
        "    - agent: {name: clerk, type: shop_agents.Clerk}\n"
    )

    assert app.main(["topology", "validate", "topology.yaml"]) == 1
    out = capsys.readouterr().out
    assert "✔ Transport config" not in out
    assert "✔ Backoff policies" not in out
    assert "✗ Invalid  2 errors" in out


def test_a_file_without_a_tree_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be checked is not listed as checked."""
    Path("topology.yaml").write_text("transport: {type: nats}\n")

    assert app.main(["topology", "validate", "topology.yaml"]) == 1
    out = capsys.readouterr().out
    assert "✔ YAML syntax" in out
    assert "No empty supervisors" not in out
    assert "✗ Invalid  1 error" in out


def test_the_json_forms_are_plain_data(capsys: pytest.CaptureFixture[str]) -> None:
    """As for other notations."""
    page("production.yaml")
    page("full.yaml", "full.yaml")

    assert app.main(["topology", "validate", "--json", "topology.yaml"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": "topology.yaml", "valid": True, "diagnostics": []}
    assert app.main(["topology", "show", "--json", "topology.yaml"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [child["name"] for child in shown["root"]["children"]][:2] == ["research_sup", "execution_sup"]
    assert app.main(["topology", "diff", "--json", "full.yaml", "topology.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["path"] == "transport/@type"


def test_what_cannot_be_compared_has_the_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """An unreadable file, one with errors, and a team that is no system."""
    page("production.yaml")
    Path("wrong.yaml").write_text("supervision: {name: root, children: []}\n")
    Path("pattern.yaml").write_text("pattern: {type: pipeline, slots: {a: {command: [cat]}}}\n")

    for other in ("missing.yaml", "wrong.yaml", "pattern.yaml"):
        assert app.main(["topology", "diff", "topology.yaml", other]) == 2
        assert other in capsys.readouterr().err or other == "pattern.yaml"


REVIEW = "topology review : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"
SHOP = """
plugins: {models: [{type: anthropic, config: {max_retires: 3}}], state: {type: no_such_module.Store}}
supervision:
  name: root
  children:
    - agent: {name: clerk, type: shop_agents.Clerk}
    - agent: {name: cook, type: shop_agents.Cok}
    - agent: {name: till, type: shop_agents.Till}
    - agent: {name: short, type: Waiter}
    - {type: dynamic_supervisor, name: pool, config: {allow: [no_such_module.Helper]}}
    - flow: {name: review, source: review.at}
    - command: {name: lint, argv: [cat]}
"""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system with classes in the working directory, one of them missing, one no agent."""
    Path("topology.yaml").write_text(SHOP)
    Path("review.at").write_text(REVIEW)
    Path("shop_agents.py").write_text(
        "from coterie import AgentProcess\nprint('imported')\nclass Cook(AgentProcess): ...\n"
        "class Clerk(AgentProcess): ...\nclass Till: ...\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop_agents", raising=False)


def test_validate_imports_nothing_unless_told(shop: None, capsys: pytest.CaptureFixture[str]) -> None:
    """With --import it reports classes that are missing or no agents, each with its position."""
    assert app.main(["topology", "validate", "topology.yaml"]) == 0
    assert "imported" not in capsys.readouterr().out
    assert app.main(["topology", "validate", "--import", "topology.yaml"]) == 1
    out = capsys.readouterr().out

    assert "imported" in out
    assert "topology.yaml:7:27: error[no-such-class]: agent 'cook': cannot load class 'shop_agents.Cok'" in out
    assert "did you mean 'Cook'?" in out
    assert "topology.yaml:8:27: error[no-such-class]: agent 'till': 'shop_agents.Till' is no AgentProcess" in out
    assert "dynamic_supervisor 'pool': cannot load class 'no_such_module.Helper'" in out
    assert "topology.yaml:2:74: error[bad-plugin]: state plugin 'no_such_module.Store': it cannot be imported" in out
    assert out.rstrip().endswith("✗ Invalid  5 errors")


def test_graph_draws_the_tree(shop: None, capsys: pytest.CaptureFixture[str]) -> None:
    """An arrow leads from a supervisor to each child; with --nested the teams are drawn, too."""
    assert app.main(["topology", "graph", "topology.yaml"]) == 0
    flat = capsys.readouterr().out
    assert app.main(["topology", "graph", "--nested", "topology.yaml"]) == 0
    nested = capsys.readouterr().out

    assert flat.count("-->") == 7
    assert "clerk" in flat
    assert nested.count("-->") > 7


def test_check_and_fmt_say_why_they_cannot(shop: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A system has no end, and YAML has formatters of its own."""
    assert app.main(["topology", "check", "topology.yaml"]) == 2
    assert "is a supervised system, which has no end to prove" in capsys.readouterr().err
    assert app.main(["topology", "fmt", "topology.yaml"]) == 1
    assert "use a YAML formatter" in capsys.readouterr().err


def test_a_run_reports_missing_classes_with_their_positions(shop: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything starts; a short name is one of them, since only a program can resolve it."""
    assert app.main(["run", "-t", "topology.yaml"]) == 1
    err = capsys.readouterr().err

    assert "error[no-such-class]: agent 'cook': cannot load class 'shop_agents.Cok'" in err
    assert "topology.yaml:9:28: error[no-such-class]: agent 'short': 'Waiter' has no module" in err
    assert not Path(".coterie").exists()


def test_a_system_is_not_simulated(shop: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Its agents are code, not answers."""
    Path("inner.yaml").write_text("supervision: {name: r, children: [{command: {name: c, argv: [cat]}}]}\nentry: c\n")
    Path("outer.at").write_text(
        'topology outer : [pipeline] { agent a { extensions { coterie { topology: "inner.yaml" } } } flow { a } }'
    )
    for file in ("topology.yaml", "outer.at"):
        assert app.main(["simulate", file]) == 2
        assert "its agents cannot be simulated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--transport", "amqp"], "--transport must be one of in_process, zmq, nats, not 'amqp'"),
        (["--nats-url", "nats://a"], "--nats-url is for the transport nats"),
        (["-p", "worker"], "add --transport zmq"),
    ],
)
def test_an_option_that_does_not_fit_is_a_usage_error(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 2."""
    page("affinity.yaml")

    assert app.main(["run", *options]) == 2
    assert message in capsys.readouterr().err


def test_show_lists_all_settings_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Two plugins of one type, and a node that is called like them."""
    models = "[{type: openai, config: {default_model: a}}, {type: openai, config: {default_model: b}}]"
    agent = "{name: openai, type: m.A, config: {x: 1}}"
    Path("topology.yaml").write_text(
        f"plugins: {{models: {models}}}\nsupervision: {{name: r, children: [{{agent: {agent}}}]}}\n"
    )

    assert app.main(["topology", "show", "topology.yaml"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[-3:] == ["openai  default_model: a", "openai  default_model: b", "openai  x: 1"]


def test_show_names_every_kind_of_node(capsys: pytest.CaptureFixture[str]) -> None:
    """And every field that differs from its default."""
    Path("topology.yaml").write_text(EVERY_KIND)
    Path("review.at").write_text(REVIEW)

    assert app.main(["topology", "show", "topology.yaml"]) == 0
    assert capsys.readouterr().out == EVERY_KIND_SHOWN


EVERY_KIND = """
entry: writer
transport: {type: zmq, start_proxy: true}
plugins: {models: [{type: openai, config: {api_key_env: SHOP_KEY, max_retries: 2}}]}
supervision:
  name: root
  backoff_jitter: 0.5
  backoff_base: 0.5
  children:
    - agent: {name: writer, type: shop.Writer, restart: transient, shutdown: null, config: {style: {tone: dry}}}
    - {type: dynamic_supervisor, name: pool, config: {max_total_spawns: 9, allow: [shop.Helper]}}
    - {type: dynamic_supervisor, name: crew, config: {max_children: 20}}
    - name: api
      type: http_gateway
      config:
        port: 80
        middleware: [shop.check_key]
        docs: {enabled: false}
        routes: [{path: "/v1/{id}", agent: writer, method: GET, mode: cast}]
    - {type: topology_server, name: topo, config: {host: '::1', port: 7000}}
    - {type: eval_agent, name: watch, window_seconds: 30, class: shop.Watch}
    - flow: {name: review, source: review.at, process: back}
    - pattern: {name: panel, type: pipeline, slots: {draft: {command: [cat]}}}
    - model: {name: judge, model: anthropic/claude-sonnet-4-6, prompt: Be fair., tools: [], timeout: 9}
    - command: {name: lint, argv: [ruff, check], cwd: src, timeout: 60}
"""
EVERY_KIND_SHOWN = """\
  Coterie Topology: topology.yaml  (runtime not running)

  root ONE_FOR_ONE  restarts: 3/60.0s  backoff: constant  backoff_jitter: 0.5
  ├── writer  shop.Writer  restart: transient  shutdown: unlimited
  ├── pool dynamic  max_children: unlimited  max_total_spawns: 9  allow: shop.Helper
  ├── crew dynamic  max_children: 20
  ├── api     http://0.0.0.0:80  middleware: shop.check_key  docs: enabled=false
  │   └── GET /v1/{id}  → writer  cast
  ├── topo    http://[::1]:7000
  ├── watch   eval  10/30.0s  class: shop.Watch
  ├── review  flow review.at  @back
  ├── panel   pattern pipeline
  ├── judge   model anthropic/claude-sonnet-4-6  tools: none  timeout: 9.0s
  └── lint    command ruff check  timeout: 60.0s  cwd: src

  ──────────────────────────────────────────
  Transport   zmq  tcp://127.0.0.1:5559  tcp://127.0.0.1:5560
  Plugins     openai
  Entry       writer
  Topology    8 agents  ·  3 supervisors  ·  1 processes

  Settings
  zmq     start_proxy: true
  openai  api_key_env: SHOP_KEY  max_retries: 2
  root    backoff_base: 0.5s
  writer  style: tone=dry
  panel   slots.draft: command=cat
  judge   prompt: Be fair.
"""


@pytest.mark.usefixtures("shop")
def test_a_constructor_of_a_plugin_that_fails_is_shown_where_the_file_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It shows only when the system starts, and leaves no run behind."""
    Path("topology.yaml").write_text(
        "plugins:\n  exporters:\n    - type: shop_plugins.Bad\nsupervision:\n  name: root\n  children:\n"
        "    - agent: {name: clerk, type: shop_agents.Clerk}\n"
    )
    with Path("shop_plugins.py").open("w") as file:
        file.write("class Bad:\n  def __init__(self): raise OSError('no collector')\n  def export(self, spans): ...\n")

    assert app.main(["run", "topology.yaml"]) == 1
    wanted = "exporter plugin 'shop_plugins.Bad': it cannot be constructed: OSError: no collector"
    assert f"topology.yaml:3:7: error[bad-plugin]: {wanted}" in capsys.readouterr().err
    assert app.main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.usefixtures("shop")
def test_a_plugin_is_made_to_be_checked_and_for_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    """And not once more, since a constructor may open a connection."""
    Path("topology.yaml").write_text(
        "plugins:\n  exporters:\n    - type: shop_counted.Counted\nentry: clerk\nsupervision:\n  name: root\n"
        "  children:\n    - agent: {name: clerk, type: shop_agents.Clerk}\n"
    )
    Path("shop_counted.py").write_text(
        "class Counted:\n  def __init__(self): print('made')\n  def export(self, spans): ...\n"
    )

    app.main(["run", "topology.yaml", "hello"])
    said = capfd.readouterr()
    assert said.out.count("made") == 2, said
