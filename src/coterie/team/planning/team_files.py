"""The files of a team, which its agents must not change."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from coterie.base.folder_names import FolderNames
from coterie.team.formats.folders import OBEYED
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan

TEXTS = ("harness.md", "metareview.md")
"""Optional texts of a loop; its plan names the existing ones."""
_SOURCES = FolderNames(lambda name: name.endswith((".at", ".pattern.yaml")) or name == "topology.yaml")


def team_files(plan: Plan, env: Mapping[str, str], *, texts: bool = True) -> Iterator[Path]:
    """The files of *plan* and its teams, and folders of such files, whether they exist or not.

    Args:
        env: The environment, which locates the user's settings.
        texts: Whether to include prompts of loops, which a review may write.
    """
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.place.project:
        from coterie.team.formats.settings_locations import override_path, scope_folder, user_file  # loops only

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
        )  # in case it becomes a repository
    elif plan.folder:
        with suppress(OSError):
            yield from (Path(plan.folder, name) for name in _SOURCES.of(plan.folder))
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from team_files(agent.child, env, texts=texts)
