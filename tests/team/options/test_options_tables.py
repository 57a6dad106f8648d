"""The tables of backends and options fit each other."""

from pathlib import Path

from loops import folder, planned

from coterie.patterns import agent
from coterie.team.options.agents import OPTIONS, READERS
from coterie.team.options.backends import CODING, REGISTRY, load, of_program


def test_each_group_is_read_and_has_options() -> None:
    """A backend that names a group without options, or an option that no backend reads, is a slip."""
    groups = {option.group for option in OPTIONS.values()} - {""}

    assert groups == set().union(*(entry.reads for entry in REGISTRY.values()))
    assert all(READERS.values())


def test_each_option_has_a_meaning_in_one_line() -> None:
    """Editors and pages show it."""
    for name, option in OPTIONS.items():
        assert option.about.endswith("."), name
        assert "\n" not in option.about, name


def test_each_backend_has_a_class_and_a_probe() -> None:
    """Under the paths of its entry; that of a library may not be installed."""
    for name, entry in REGISTRY.items():
        if entry.is_installed:
            assert hasattr(entry.make(), "start"), name
            assert callable(load(entry.probe)), name
        if entry.is_coding:
            assert entry.uses_files, f"{name}: its agents work on the files of the run, also on a cluster"


def test_the_name_of_a_program_selects_its_backend() -> None:
    """With arguments only where the backend takes them."""
    selected = {entry.program: kind for kind, entry in CODING.items() if entry.program}

    assert {program: of_program(f"/opt/{program}") for program in selected} == selected
    assert of_program("claude", has_args=True) == ""
    assert of_program("pi", has_args=True) == "pi"
    assert of_program("") == of_program("vim") == ""


def test_an_agent_in_python_in_a_role_has_no_idle_settings(tmp_path: Path) -> None:
    """Nothing is set that would have no effect."""
    roles = '[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\nbackend_type = "my.Agent"\n'
    made, found = planned(folder(tmp_path, {"topology.toml": roles}))

    assert made is not None
    assert [one.message for one in found if one.code == "idle-setting"] == []


def test_an_agent_of_a_pattern_has_a_queue() -> None:
    """As in a file."""
    assert agent(command=["true"], queue="gpu").definition.node.extension["queue"] == "gpu"
