"""The ready-made loops: each is valid and can complete from wherever it stands; its texts say what its roles may do."""

import re
import tomllib
from pathlib import Path

import pytest
from preset_page import page

from coterie.errors import UsageError
from coterie.execution.runs.rehearsal import rehearse
from coterie.team.formats.toml import read_folder
from coterie.team.planning import presets
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.loops.folder import plan_folder
from coterie.team.planning.plan import Plan
from coterie.team.planning.presets.catalogue import catalogue, describe
from coterie.team.topology.events import START, allowed, suggested
from coterie.team.topology.loop import Loop, Role

REQUIRED = {
    "autocode": ["review.passed"],
    "autospec": ["research.ready", "design.ready", "spec.ready"],
    "autosimplify": ["simplification.verified"],
    "autodoc": ["doc.checked"],
    "autofix": ["fix.verified"],
    "autoperf": ["perf.measured"],
    "autoqa": ["surfaces.identified"],
    "autoresearch": ["experiment.measured"],
    "autoreview": ["review.checked"],
    "autosec": ["findings.reported"],
    "autotest": ["tests.passed"],
    "autoideas": ["analysis.validated"],
}
"""The table of the configuration page."""
AUTOCODE = {
    "name": "autocode",
    "completion": "task.complete",
    "role": [
        {"id": "planner", "emits": ["tasks.ready", "task.complete"], "prompt_file": "roles/planner.md"},
        {"id": "builder", "emits": ["review.ready", "build.blocked"], "prompt_file": "roles/build.md"},
        {"id": "critic", "emits": ["review.passed", "review.rejected"], "prompt_file": "roles/critic.md"},
        {
            "id": "finalizer",
            "emits": ["queue.advance", "finalization.failed", "task.complete"],
            "prompt_file": "roles/finalizer.md",
        },
    ],
    "handoff": {
        "loop.start": ["planner"],
        "queue.advance": ["planner"],
        "build.blocked": ["planner"],
        "tasks.ready": ["builder"],
        "review.ready": ["critic"],
        "review.rejected": ["builder"],
        "review.passed": ["finalizer"],
        "finalization.failed": ["builder"],
    },
}
"""The first example of the topology page."""
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "presets.md"

_EMITTED = re.compile(r"\{\{TOOL_PATH\}\} emit ([a-z.]+)")
_NAMED = re.compile(r"`([a-z]+\.[a-z]+)`")

every_preset = pytest.mark.parametrize("name", sorted(REQUIRED))


def loop_of(name: str) -> Loop:
    topology = read_folder(presets.find(name)).topology
    assert topology is not None
    assert topology.loop is not None
    return topology.loop


def planned(name: str, tmp_path: Path) -> Plan:
    """The plan of a preset as it is, without settings of a user or a repository."""
    plan, found = plan_folder(presets.find(name), work_dir=tmp_path, env={"HOME": str(tmp_path)})
    assert plan is not None
    assert found == []
    return plan


def test_there_are_the_presets_of_the_page() -> None:
    assert presets.names() == tuple(sorted(REQUIRED))
    assert all(presets.is_preset(name) for name in REQUIRED)
    assert not presets.is_preset("__pycache__")
    assert not presets.is_preset("")


def test_a_name_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown preset 'autocod'; did you mean 'autocode'"):
        presets.find("autocod")


def test_autocode_is_the_one_of_the_page() -> None:
    assert tomllib.loads(presets.texts("autocode")["topology.toml"]) == AUTOCODE


@every_preset
def test_nothing_is_to_be_said_of_a_preset(name: str, tmp_path: Path) -> None:
    """It is valid, without a warning, and has what the page's table says."""
    loop = planned(name, tmp_path).coordination
    assert isinstance(loop, LoopPlan)
    assert list(loop.required) == REQUIRED[name]
    assert (loop.completion, loop.promise, loop.max_iterations) == ("task.complete", "LOOP_COMPLETE", 100)
    assert loop.review is not None
    assert loop.review.every == len(loop.roles)


@every_preset
def test_a_preset_is_rehearsed_to_its_completion(name: str, tmp_path: Path) -> None:
    document = rehearse(planned(name, tmp_path), {"prompt": "Do it"})
    emitted = [event for turn in document["turns"] for event in turn["emitted"]]
    assert (document["outcome"], document["exit"]) == ("completed", 0)
    assert set(REQUIRED[name]) < set(emitted)
    assert emitted[-1] == "task.complete"
    assert len(document["turns"]) >= 4, "the nearest way to the end goes around the work"


@every_preset
def test_a_preset_can_complete_from_wherever_it_stands(name: str) -> None:
    """No event leads into a corner: what is required can still come, and so can the end; and everything can happen."""
    loop = loop_of(name)
    steps = walked(loop, frozenset(REQUIRED[name]))
    ends = {state for state, following in steps.items() if None in following}
    while more := {state for state, following in steps.items() if following & ends} - ends:
        ends |= more
    assert ends == set(steps)
    assert {event for event, _ in steps} == {START} | {e for r in loop.roles for e in r.emits} - {loop.completion}


State = tuple[str, frozenset[str]]


def walked(loop: Loop, required: frozenset[str]) -> dict[State, set[State | None]]:
    """Every state that can be reached, an event and what is still required; and what may follow, None for the end."""
    handoff = [(one.event, one.targets) for one in loop.handoff]
    ids = [role.id for role in loop.roles]
    emits = {role.id: role.emits for role in loop.roles}
    steps: dict[State, set[State | None]] = {}
    open_states: list[State] = [(START, required)]
    while open_states:
        event, missing = state = open_states.pop()
        if state in steps:
            continue
        events = allowed(emits, suggested(handoff, ids, event))
        following: set[State | None] = {(one, missing - {one}) for one in events if one != loop.completion}
        if loop.completion in events and not missing:
            following.add(None)
        steps[state] = following
        open_states += [one for one in following if one is not None]
    return steps


@every_preset
def test_every_event_leads_somewhere(name: str) -> None:
    """Each event of a role has its own line in the handoff map, or completes; and each line has an event."""
    loop = loop_of(name)
    emitted = {event for role in loop.roles for event in role.emits}
    assert emitted - {loop.completion} == {one.event for one in loop.handoff} - {START}
    assert {target for one in loop.handoff for target in one.targets} == {role.id for role in loop.roles}


@every_preset
def test_the_prompts_name_the_events_of_their_roles(name: str) -> None:
    """A role is told of each event it may emit, of those that lead to it, and of no other; the example is allowed."""
    loop = loop_of(name)
    every = {event for role in loop.roles for event in role.emits} | {START}
    for role in loop.roles:
        leading = {one.event for one in loop.handoff if role.id in one.targets}
        named = set(_NAMED.findall(role.prompt)) & every
        emitted = set(_EMITTED.findall(role.prompt))
        assert set(role.emits) <= named | emitted, role.id
        assert named <= set(role.emits) | leading, role.id
        assert emitted <= set(role.emits), role.id
        assert emitted, role.id


@every_preset
def test_the_texts_stand_on_their_own(name: str) -> None:
    """They name no state folder but by its placeholder, no other preset, and begin with a line that says it all."""
    texts = presets.texts(name)
    assert {"autoloops.toml", "topology.toml", "harness.md", "metareview.md"} < set(texts)
    for file, text in texts.items():
        assert ".autoloop" not in text, file
        assert set(re.findall(r"\{\{(\w+)\}\}", text)) <= {"STATE_DIR", "TOOL_PATH", "PRESET_DIR"}, file
        assert set(re.findall(r"\bauto[a-z]+\b", text)) <= {name, "autoloops"}, file
        assert all(len(line) <= 120 for line in text.splitlines()), file
    for role in loop_of(name).roles:
        first = role.prompt.splitlines()[0]
        assert first.startswith(f"You are the {role.id}: you "), role.id
        assert first.endswith("."), role.id


def test_what_everybody_has_to_know_is_in_each_harness() -> None:
    """The rules that hold for all presets do not differ from one to the next."""
    parts = {name: presets.texts(name)["harness.md"].partition("## Every turn")[2] for name in REQUIRED}
    common = {" ".join(part.replace(name, "P").split()) for name, part in parts.items()}
    assert len(common) == 1
    assert "BLOCKED: see blocked.md" in common.pop()


def test_the_catalogue_says_what_the_files_say() -> None:
    found = catalogue()
    assert [one.name for one in found] == sorted(REQUIRED)
    fix = describe("autofix")
    assert fix.about == presets.texts("autofix")["harness.md"].splitlines()[0]
    assert (fix.first, fix.required, fix.completion) == (("diagnoser",), ("fix.verified",), "task.complete")
    assert [role.name for role in fix.roles] == ["diagnoser", "fixer", "verifier", "closer"]
    assert fix.roles[1].emits == {"fix.applied": ("verifier",), "fix.blocked": ("diagnoser",)}


def test_the_page_is_fresh() -> None:
    """`python docs/generate/preset_page.py > docs/reference/presets.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_a_role_that_is_told_of_a_foreign_event_is_found() -> None:
    """What the tests above look for is there to be found."""
    role = Role(id="fixer", emits=("fix.applied",), prompt="`{{TOOL_PATH}} emit fix.applied`, after `bug.closed`.")
    assert _EMITTED.findall(role.prompt) == ["fix.applied"]
    assert _NAMED.findall(role.prompt) == ["bug.closed"]
