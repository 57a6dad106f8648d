"""Where the files of settings are; nothing is read here, so that a run without such files loads no reader."""

import os
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from coterie.base import files
from coterie.team.formats.folders import SETTINGS

USER, PROJECT = "user", "project"
USER_OVERRIDE, REPO_OVERRIDE = "user override", "repo override"
USER_PROJECT = "user project"
OF_OPERATOR = (USER, USER_OVERRIDE, USER_PROJECT)
"""The layers that are files of the user, which no repository brings along."""


def layer_files(
    project: Path | None, work_dir: Path, env: Mapping[str, str], preset: str = "", known: Collection[str] | None = None
) -> Iterator[tuple[str, Path]]:
    """The layers that are files, lowest first, with their paths, which may not exist.

    Args:
        known: The files that a running loop began with: a project keeps the one of its two that is among them.
    """
    preset = preset or (project.resolve().name if project is not None else "")
    yield USER, user_file(env)
    if project is not None:
        conf = project / SETTINGS[1]
        yield PROJECT, conf if known is not None and str(conf) in known else project_file(project)
    if preset:
        yield USER_OVERRIDE, override_file("user", preset, work_dir, env)
        yield REPO_OVERRIDE, override_file("repo", preset, work_dir, env)
    if not is_in(own := own_file(work_dir, env), work_dir):
        yield USER_PROJECT, own


def project_file(project: Path) -> Path:
    """The settings file of *project*: `autoloops.toml`, or `autoloops.conf` if only that exists."""
    toml, conf = (project / name for name in SETTINGS)
    return conf if files.is_file(conf) and not files.is_file(toml) else toml


def user_file(env: Mapping[str, str]) -> Path:
    """The user's own settings file."""
    given = env.get("AUTOLOOP_CONFIG")
    return Path(given) if given else user_folder(env) / "config.toml"


def override_file(scope: str, preset: str, work_dir: Path, env: Mapping[str, str]) -> Path:
    """The override file of *scope*, `user` or `repo`, for *preset*."""
    return scope_folder(scope, work_dir, env) / override_path(preset)


def override_path(preset: str) -> Path:
    """The override file for *preset* within the folder of a scope."""
    return Path("overrides", f"{preset}.toml")


def is_in(path: Path, folder: Path) -> bool:
    """Whether *path* lies in *folder*, links followed."""
    return path.resolve().is_relative_to(folder.resolve())


def own_file(work_dir: Path, env: Mapping[str, str]) -> Path:
    """The user's own settings file for the project of *work_dir*, outside of it."""
    root = repo_root(work_dir.resolve())
    return user_folder(env) / "projects" / f"{root.name}-{sha256(os.fsencode(root)).hexdigest()[:8]}.toml"


def scope_folder(scope: str, work_dir: Path, env: Mapping[str, str]) -> Path:
    """The folder of the overrides and profiles of *scope*, `user` or `repo`."""
    return user_folder(env) if scope == "user" else repo_root(work_dir) / ".autoloop"


def repo_root(folder: Path) -> Path:
    """The root of the git repository around *folder*; *folder* if there is none."""
    return next((one for one in (folder, *folder.parents) if files.exists(one / ".git")), folder)


def user_folder(env: Mapping[str, str]) -> Path:
    """The folder of the user's settings."""
    config = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME") or files.user_home()) / ".config")
    return Path(config) / "autoloop"


def has_own_files(work_dir: Path, env: Mapping[str, str], preset: str = "") -> bool:
    """Whether the user has files of settings for a run in *work_dir*."""
    return any(layer in OF_OPERATOR and files.exists(path) for layer, path in layer_files(None, work_dir, env, preset))
