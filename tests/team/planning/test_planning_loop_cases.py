"""Who thinks in a loop, held against an earlier system, and where this one decides otherwise."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_cases import cases
from loops import folder, loop_of, plan, planned

from coterie.team.planning.loops.backends import BackendSpec, UnknownKind, kind_of, of_flag, permitted, settle
from coterie.team.planning.loops.texts import TextLocation, fill
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.events import suggested

BEYOND = "Not on the pages: the providers of ACP are kiro, claude-agent-acp, generic, any label kept (spec, Backends)."
EXPLICIT = "An explicit kind always wins (spec, Backends)."
LABEL = "Unknown values use generic ACP behaviour while preserving the label (page, Backend)."
DROPPED = "Undeclared targets are dropped; nothing left: all roles (spec, Routing)."
TYPED = "A value of the wrong type is a diagnostic with file:line, never a silent default (spec, Configuration)."

OTHERWISE = {
    "acp_provider-004": BEYOND,
    "acp_provider-006": LABEL,
    "acp_provider-009": BEYOND,
    "backend_kind-013": BEYOND,
    "backend_kind-014": BEYOND,
    "backend_kind-016": BEYOND,
    "backend_kind-036": EXPLICIT,
    "backend_kind-044": BEYOND,
    "backend_kind-045": BEYOND,
    "backend_resolve-006": '`backend.kind = "kiro"` alone runs kiro\'s own default command (spec, Backends).',
    "backend_resolve-010": LABEL,
    "backend_resolve-022": "`file` passes the prompt's file as standard input, so the plan says stdin (page, Backend).",
    "backend_resolve-024": "`-b` sets kind, provider, command, args and prompt_mode, nothing else (spec, Backends).",
    "prompt_mode-006": TYPED,
    "prompt_mode-007": TYPED,
    "prompt_mode-008": TYPED,
    "review_every-005": TYPED,
    "review_every-006": TYPED,
    "role_overlay-010": DROPPED,
    "role_overlay-020": DROPPED,
    "role_overlay-025": DROPPED,
    "role_overlay-040": DROPPED,
    "role_overlay-045": DROPPED,
    "role_overlay-062": "`acp` sends it through the ACP prompt request (page, Backend): a command is told by arg.",
    "template-006": "An autoloop project folder runs here unchanged (spec): the path is warned about.",
    "template-008": "An autoloop project folder runs here unchanged (spec): the path is warned about.",
    "template-011": "An autoloop project folder runs here unchanged (spec): the path is warned about.",
}
"""Cases that are not followed, by id, with the sentence that decides. What `acp_provider` has no ids for is counted."""


def named(area: str) -> list[dict[str, Any]]:
    """The cases of an area; where their ids are taken by a result, they are counted."""
    found = cases(area)
    return [{**case, "name": f"{area}-{n:03}"} for n, case in enumerate(found, 1)] if area == "acp_provider" else found


def followed(area: str) -> list[Any]:
    found = [(case.get("name", case["id"]), case) for case in named(area)]
    return [pytest.param(case, id=name) for name, case in found if name not in OTHERWISE]


def project(path: Path, case: dict[str, Any]) -> Path:
    """The folder of *case*: the preset `autocode`."""
    files = {"autoloops.toml": "toml", "topology.toml": "topology", "agents.toml": "agents_toml"}
    return folder(path / "autocode", {name: case[key] for name, key in files.items() if case.get(key) is not None})


def assert_thinks(agent: AgentPlan, backend: dict[str, Any]) -> None:
    """*agent* is answered as the earlier system says."""
    args = [] if backend["kind"] == "claude-sdk" else backend["args"]
    assert agent.backend == backend["kind"]
    assert list(agent.argv) == [backend["command"], *args]
    assert agent.model == backend["model"]
    assert agent.timeout == backend["timeout_ms"] / 1000
    if agent.backend == "command":
        assert agent.prompt_via == backend["prompt_mode"]
    else:
        assert agent.options.get("agent", "") == backend["agent"]
        assert agent.options.get("provider", "") == backend["provider"]
        assert agent.options["trust_all_tools"] == backend["trust_all_tools"]


def test_what_is_not_followed_is_there() -> None:
    """No sentence decides nothing."""
    areas = {name.rpartition("-")[0] for name in OTHERWISE}

    assert {case.get("name", case["id"]) for area in areas for case in named(area)} >= OTHERWISE.keys()


@bundle("case", followed("backend_kind"))
def test_the_kind_of_a_backend(case: dict[str, Any]) -> None:
    """By its name, else by the command's; what is no kind is refused."""
    if "result" not in case:
        with pytest.raises(UnknownKind):
            kind_of(case["kind"], case["command"], case["has_custom_args"])
    else:
        assert kind_of(case["kind"], case["command"], case["has_custom_args"]) == case["result"]


@bundle("case", followed("acp_provider"))
def test_how_a_provider_is_started(case: dict[str, Any]) -> None:
    """Defect J: its own command and arguments, unless others are given."""
    spec = settle({"kind": case["kind"] or "acp", "provider": case["provider"], "command": case["command"]})

    assert spec.provider == case["id"]
    assert spec.command == (case["command"] or case["default_command"])
    assert (list(spec.args), spec.prompt_mode) == (case["default_args"], case["default_prompt_mode"])


@bundle("case", followed("backend_flag"))
def test_what_the_command_line_names(case: dict[str, Any]) -> None:
    """Kind, provider, command, arguments and prompt mode are set as one."""
    layer = {name: list(value) if isinstance(value, tuple) else value for name, value in of_flag(case["flag"]).items()}

    assert layer == {"provider": "", **case["override"]}


@bundle("case", followed("claude_args"))
def test_what_a_claude_is_given_that_is_started_as_a_command(case: dict[str, Any]) -> None:
    """To print, and not to ask for leave."""
    assert list(permitted(case["command"], tuple(case["args"]))) == case["result"]


@pytest.mark.parametrize("case", followed("prompt_mode"))
def test_how_a_prompt_gets_there(case: dict[str, Any]) -> None:
    """What is unset follows from the kind."""
    assert settle({"kind": "command", "prompt_mode": case["input"]}).prompt_mode == case["result"]


@bundle("case", followed("backend_resolve"))
def test_the_backend_of_all_and_that_of_reviews(case: dict[str, Any], tmp_path: Path) -> None:
    """The settings, and what the command line names; what is unset for reviews is as elsewhere."""
    named = case["overrides"].get("backendOverride", {}).get("kind", "")
    made = plan(project(tmp_path, case), backend=named)

    assert_thinks(made.agents["@loop"], case["backend"])
    review = loop_of(made).review
    assert (review is not None) == case["review"]["enabled"]
    if review is not None:
        assert_thinks(made.agents["@review"], case["review"])
        assert review.every == case["review"]["every"]


@bundle("case", followed("role_overlay"))
def test_the_backend_of_an_iteration(case: dict[str, Any], tmp_path: Path) -> None:
    """The settings, then what the first suggested role says, then `agents.toml` on the agent alone."""
    made, found = planned(project(tmp_path, case))
    if "error" in case:
        assert made is None
        assert "unknown-backend" in [each.code for each in found]
        return
    assert made is not None
    loop = loop_of(made)
    roles = suggested(loop.handoff, [role.id for role in loop.roles], case["routing_event"])
    assert list(roles) == case["suggested_roles"]
    assert_thinks(made.agents[roles[0] if roles else "@loop"], case["backend"])


@pytest.mark.parametrize("case", followed("review_every"))
def test_how_often_there_is_a_review(case: dict[str, Any], tmp_path: Path) -> None:
    """After every so many iterations; unset, as many as there are roles."""
    roles = "".join(f'[[role]]\nid = "r{n}"\nemits = ["task.complete"]\n' for n in range(case["role_count"]))
    every = f"review.every_iterations = {case['configured']}\n" if case["configured"] else ""
    review = loop_of(plan(project(tmp_path, {"toml": every, "topology": roles}))).review

    assert review is not None
    assert review.every == case["every"]


@pytest.mark.parametrize("case", followed("template"))
def test_placeholders(case: dict[str, Any]) -> None:
    """They are replaced; one that there is not is an error."""
    found: list[Any] = []
    text = fill(case["input"], {"STATE_DIR": "/s", "TOOL_PATH": "/t"}, "the text", TextLocation("f"), found.append)

    if "error" in case:
        assert [each.code for each in found] == ["unknown-placeholder"]
    else:
        assert (text, found) == (case["expanded"], [])


@pytest.mark.parametrize("case", [case for case in cases("template") if case["raw_path_error"]], ids=lambda c: c["id"])
def test_a_path_of_the_state_is_warned_about(case: dict[str, Any]) -> None:
    """It is right only where the state lies there."""
    found: list[Any] = []

    assert fill(case["input"], {}, "the text", TextLocation("f"), found.append) == case["expanded"]
    assert [(each.code, each.is_error) for each in found] == [("raw-state-path", False)]


def test_a_claude_that_is_not_trusted_prints_all_the_same() -> None:
    """Nobody could answer it; it has to ask for leave, and gets none."""
    layer = {"kind": "command", "command": "claude", "args": ("--model", "opus"), "trust_all_tools": False}

    assert settle(layer).argv == ("claude", "-p", "--model", "opus")


def test_nothing_is_open_in_a_backend() -> None:
    """What no layer sets follows from the kind."""
    assert settle({}) == BackendSpec(kind="claude-sdk", command="claude")
