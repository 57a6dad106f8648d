"""The variables by which git finds a repository: those of a hook that started this process are another repository's."""

from collections.abc import Mapping

LOCAL = frozenset(
    [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    ]
)
"""What `git rev-parse --local-env-vars` names, in any version, and the quarantine of a push."""


def without_repository(environment: Mapping[str, str]) -> dict[str, str]:
    """*environment* without the variables that name a repository."""
    return {name: value for name, value in environment.items() if name not in LOCAL}
