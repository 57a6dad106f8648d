"""The backends that the user chose for projects, in a file beside the user's settings.

It is not in the project, where an agent or a cloned repository could write it.
"""

from collections.abc import Mapping
from pathlib import Path

from coterie.errors import UsageError
from coterie.team.formats import bounds
from coterie.team.formats.settings.edit import load_document, save_document
from coterie.team.formats.settings_locations import repo_root, user_folder


def file_of(env: Mapping[str, str]) -> Path:
    """The file: a line `"PROJECT" = "BACKEND"` for each."""
    return user_folder(env) / "backends.toml"


def backend_for(folder: Path, env: Mapping[str, str]) -> str:
    """The backend that is remembered for the project around *folder*; empty if there is none.

    Raises:
        UsageError: If the file cannot be read.
    """
    import tomllib

    try:
        known = tomllib.loads(bounds.read_bytes(file_of(env)).decode())
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError, RecursionError) as why:
        raise UsageError(f"{file_of(env)} cannot be read: {why}; correct or remove it") from None
    return str(known.get(str(project_of(folder)), ""))


def remember(folder: Path, backend: str, env: Mapping[str, str]) -> None:
    """Remember *backend* for the project around *folder*."""
    document = load_document(file_of(env))
    document[str(project_of(folder))] = backend
    save_document(file_of(env), document)


def project_of(folder: Path) -> Path:
    """The git repository around *folder*, or *folder* itself."""
    return repo_root(folder.resolve())
