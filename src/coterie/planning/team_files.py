"""The files that a team is read from, which its agents must not change."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from coterie.formats.folders import OBEYED
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Plan

TEXTS = ("harness.md", "metareview.md")
"""Texts of a loop that may be missing; its plan names those that exist."""
_SOURCES = ("*.at", "topology.yaml", "*.pattern.yaml")


def team_files(plan: Plan, env: Mapping[str, str], *, texts: bool = True) -> Iterator[Path]:
    """The files of *plan* and its teams, and folders of such files, whether they exist or not.

    Args:
        env: The environment, which locates the user's settings.
        texts: Whether prompts of loops are among them; a review may write these.
    """
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.place.project:
        from coterie.formats.settings_locations import override_path, scope_folder, user_file  # loops only

        folder, work_dir = Path(loop.place.project), Path(loop.place.work_dir)
        settings = {*OBEYED}
        names = {*settings, *TEXTS, *loop.files} if texts else settings
        yield from (folder / name for name in sorted(names))
        yield user_file(env)
        for scope in ("user", "repo"):
            top = scope_folder(scope, work_dir, env)
            yield from (top / name for name in ("overrides", "profiles"))
            yield top / override_path(loop.place.preset)
        yield from (
            work_dir / ".autoloop" / name for name in ("overrides", "profiles")
        )  # should it become a repository
    elif plan.folder:
        yield from (path for pattern in _SOURCES for path in sorted(Path(plan.folder).glob(pattern)))
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from team_files(agent.child, env, texts=texts)
