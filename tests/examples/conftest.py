"""A small git repository with known defects, and a way to ask an agent of the repo-review example as coterie would."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from review_team import ANALYSERS, SEEDS, Ask, Result, answer, commit, git


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask an agent: `ask("writer", repo=…, inputs=[…], reads=[…])`; the working directory is `tmp_path`."""

    def one(agent: str, inputs: Sequence[Result] = (), reads: Sequence[Result] = (), **given: str) -> Result:
        return answer(agent, tmp_path, inputs, reads, given)

    return one


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository made of `tests/data/repo-review`, whose lines say in a comment what is wrong with them.

    `hot.py` is changed by most of its commits.
    """
    root = tmp_path_factory.mktemp("seeded")
    git(root, "init", "-q")
    for source in sorted(SEEDS.rglob("*.txt")):
        target = root / source.relative_to(SEEDS).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    (root / "logo.png").write_bytes(b"\x89PNG\0\0")
    commit(root, "All of it")
    for n in range(12):
        (root / "shop" / "hot.py").write_text(f'"""Changes all the time."""\n\nREVISION = {n}\n' + "\n" * 3)
        commit(root, "Fix the revision" if n % 4 == 0 else "Change the revision")
    for n in range(3):
        commit(root, f"Nothing {n}")
    return root


@pytest.fixture(scope="session")
def reports(seeded: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """What the analysers say of the seeded repository."""
    folder = tmp_path_factory.mktemp("reports")
    return [answer(name, folder, given={"repo": str(seeded)}) for name in ANALYSERS]
