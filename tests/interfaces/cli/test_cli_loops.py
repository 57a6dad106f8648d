"""What the commands about a team's file say of the folder of a loop."""

import json
import pwd
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from command_line import Place
from loops import TWO, pair

from coterie.team.options.backends import CODING

OUTLINE = """\
pair
├─ writer (agent, agent --fast, starts)
│    You write.
│    -> reader  [on draft.ready]
├─ reader (agent, acp kiro opus)
│    You read.
│    completes with task.complete, timeout 90s
│    -> writer  [on draft.rejected]
└─ @review (agent, agent --fast)
"""
SETTINGS = 'backend.command = "agent"\nbackend.args = ["--fast"]\n'
OWN = TWO.replace(
    'id = "reader"',
    'id = "reader"\nbackend_kind = "acp"\nbackend_provider = "kiro"\nbackend_args = ["acp"]\n'
    'backend_command = "kiro-cli"\nbackend_model = "opus"\nbackend_timeout_ms = 90000',
)


@pytest.fixture
def loop(place: Place) -> Path:
    """The folder of a loop, `pair`, beside the teams of *place*."""
    return pair(place.folder / "pair", SETTINGS, topology_toml=OWN)


def test_a_loop_of_a_user_without_a_home_has_its_own_settings(
    place: Place, loop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the user are not there; nothing is made in their place."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)

    assert place.look("topology", "show", "pair").out == OUTLINE


def test_show_draws_the_roles(place: Place, loop: Path) -> None:
    """Who thinks, what each does first, and where its events lead; then who is asked beside them."""
    assert place.look("topology", "show", "pair").out == OUTLINE


def test_what_completes_a_loop_may_stand_in_its_settings(place: Place, loop: Path) -> None:
    """It leads nowhere, and so is no arrow."""
    (loop / "autoloops.toml").write_text(SETTINGS + 'event_loop.completion_event = "draft.rejected"\n')
    shown = place.look("topology", "show", "pair").out

    assert "completes with draft.rejected" in shown
    assert "-> [writer, reader]  [on task.complete]" in shown


def test_a_loop_is_drawn_in_every_format(place: Place, loop: Path) -> None:
    """Its roles as boxes, events at the arrows, those that lead back told apart; the review is no part of it."""
    mermaid = place.look("topology", "graph", "pair").out
    assert 'n0 -->|"draft.ready"| n1' in mermaid
    assert 'n1 -.->|"draft.rejected"| n0' in mermaid
    assert "n2" not in mermaid

    assert "draft.ready" in place.look("topology", "graph", "pair", "--format", "dot").out
    picture = ElementTree.fromstring(place.look("topology", "graph", "pair", "--format", "svg").out)
    assert {"writer", "reader", "draft.ready"} <= {"".join(each.itertext()) for each in picture.iter()}
    data = json.loads(place.look("topology", "graph", "pair", "--format", "json").out)
    assert [(box["name"], box["starts"]) for box in data["boxes"]] == [("writer", True), ("reader", False)]


def test_roles_that_nothing_leads_to_are_drawn_last(place: Place, loop: Path) -> None:
    """As events lead to them, the others are in the order of the file."""
    lost = '[[role]]\nid = "lost"\nemits = ["draft.ready"]\n\n'
    (loop / "topology.toml").write_text(TWO.replace("[[role]]", lost + "[[role]]", 1))
    data = json.loads(place.look("topology", "graph", "pair", "--format", "json").out)

    assert [box["name"] for box in data["boxes"]] == ["writer", "reader", "lost"]


def test_validate_says_what_is_found_in_every_file(place: Place, loop: Path) -> None:
    """Each with its own file, line and column."""
    (loop / "topology.toml").write_text(OWN.replace('"draft.ready" = ["reader"]', '"draft.ready" = ["raeder"]'))
    (loop / "agents.toml").write_text("[preset.pair]\nreader = 3\n")
    said = place.look("topology", "validate", "pair", status=1)

    assert said.out == "pair: 1 error, 1 warning\n"
    assert "pair/topology.toml:21:1: warning[handoff-to-nobody]" in said.err
    assert "did you mean 'reader'?" in said.err
    assert "pair/agents.toml:2:1: error[bad-value]: 'preset.pair.reader' must be a text, not 3" in said.err


def test_validate_looks_at_the_settings_of_what_can_be_read(place: Place, loop: Path) -> None:
    """With the line they stand on."""
    (loop / "autoloops.toml").write_text(SETTINGS + 'event_loop.max_iterations = "many"\n')
    said = place.look("topology", "validate", "pair", "--json", status=1)

    document = json.loads(said.out)
    assert (document["file"], document["valid"]) == ("pair", False)
    (found,) = document["diagnostics"]
    assert (found["code"], Path(found["file"]).name, found["line"]) == ("bad-setting", "autoloops.toml", 3)


def test_a_near_miss_is_mended_in_the_topology(place: Place, loop: Path) -> None:
    """In place; the rest of the file stays as it is."""
    text = "# a loop\r\n" + OWN.replace("backend_model", "backend_modle")
    (loop / "topology.toml").write_text(text, newline="")
    said = place.look("topology", "validate", "pair", "--fix")

    assert said.out == "pair: ok\n"
    assert "fixed: correct the name" in said.err
    assert (loop / "topology.toml").read_bytes().decode() == text.replace("backend_modle", "backend_model")


def test_a_loop_is_rehearsed_with_what_the_command_line_says(place: Place, loop: Path) -> None:
    """Nobody is asked, whatever its backends."""
    said = place.look("run", "pair", "--rehearse", "--json")

    document = json.loads(said.out)
    assert (document["outcome"], document["exit"]) == ("completed", 0)
    assert [turn["agent"] for turn in document["turns"]] == ["writer", "reader"]
    stopped = place.look("run", "pair", "--rehearse", "--json", "--set", "event_loop.max_iterations=1", status=3)
    assert len(json.loads(stopped.out)["turns"]) == 1


@pytest.mark.parametrize(
    ("library", "lacks"), [("json", "program 'kiro-cli'"), ("no_such_library", "library no_such_library")]
)
def test_who_cannot_be_asked_yet_is_told_before_a_run(
    place: Place, loop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, lacks: str
) -> None:
    """With what works: -b does not, even with `claude` installed, since the role has its own backend."""
    (tmp_path / "claude").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(CODING, "acp", msgspec.structs.replace(CODING["acp"], library=library))
    said = place.look("run", "pair", "go", status=1)

    assert f"the {lacks} of the backend acp" in said.err
    assert "; reader would use it" in said.err
    assert "or try it without a backend: --rehearse" in said.err
    place.look("run", "pair", "go", "--rehearse")
    assert not (place.folder / ".autoloop").exists()


def test_a_folder_of_something_else_is_no_target(place: Place) -> None:
    """It is said what makes one a loop's."""
    (place.folder / "empty").mkdir()

    assert "it contains none of topology.toml, autoloops.toml" in place.look("run", "empty", status=2).err


def test_arguments_that_nobody_takes_are_a_wrong_call(place: Place, loop: Path) -> None:
    """A model is no program."""
    words = ("run", "pair", "go", "-b", "model", "--set", "backend.model=sonnet", "--", "--x")

    assert "takes no arguments" in place.look(*words, status=2).err


def test_show_says_what_has_no_effect(place: Place, loop: Path) -> None:
    """What a loop does not know is kept, and told."""
    (loop / "topology.toml").write_text(OWN.replace("prompt_file", "shade = true\nprompt_file") + "[meta]\nx = 1\n")

    assert place.look("topology", "show", "pair").out == OUTLINE + (
        "'meta' is kept but has no effect yet\n'shade' of role 'reader' is kept but has no effect yet\n"
    )


def test_a_preset_is_looked_at_by_its_name(place: Place) -> None:
    """Unless something here is called so."""
    assert place.look("topology", "validate", "autocode").out == "autocode: ok\n"
    assert "├─ builder" in place.look("topology", "show", "autocode").out

    pair(place.folder / "autocode", SETTINGS)
    assert "├─ writer" in place.look("topology", "show", "autocode").out


@pytest.mark.parametrize(
    ("words", "said"), [((), True), ((" ",), True), (("Mend it",), False), (("--set", "event_loop.prompt=Mend"), False)]
)
def test_a_loop_without_an_objective_is_started_and_told(
    words: tuple[str, ...], said: bool, place: Place, loop: Path
) -> None:
    """Its roles may need none, so it runs; an objective in the settings counts."""
    (loop / "topology.toml").write_text(TWO)
    (loop / "autoloops.toml").write_text('backend.kind = "command"\nbackend.command = "true"\nreview.enabled = false\n')
    err = place.look("run", "pair", "-i", "1", *words, status=3).err

    hint = 'this loop has no objective; to give one: coterie run pair "…", or event_loop.prompt in its settings\n'
    assert err.startswith(hint) == (hint in err) == said
