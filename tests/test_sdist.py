"""The source distribution has what its tests read."""

import subprocess
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]


@pytest.mark.once
def test_the_source_distribution_has_every_folder_of_the_repository() -> None:
    """Its tests could not even be collected without `editors`."""
    if not (TOP / ".git").exists():
        pytest.skip("not in a repository: this is the distribution")
    listed = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    folders = {f"/{path.partition('/')[0]}" for path in listed if "/" in path}
    included = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]

    assert folders - {*included["include"]} == set()
