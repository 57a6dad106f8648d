"""Profiles: fragments added to the prompts of a preset's roles.

A profile is a folder `profiles/<name>/` in the repository's `.autoloop` or in the user's configuration; it contains
`<preset>/<role>.md` for each role it extends.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from coterie.base import files
from coterie.base.diagnostics import did_you_mean, error, warning
from coterie.team.formats import bounds
from coterie.team.formats.settings_locations import scope_folder
from coterie.team.planning.loops.texts import Report, TextLocation, joined

SCOPES = ("repo", "user")


def fragments(
    profiles: Mapping[str, TextLocation],
    preset: str,
    roles: Iterable[str],
    work_dir: Path,
    env: Mapping[str, str],
    report: Report,
) -> dict[str, str]:
    """The texts that *profiles*, each `repo:<name>` or `user:<name>`, add to the prompts of *roles*, in order.

    A missing profile is an error; one without fragments for the preset's roles is a warning.

    Args:
        profiles: The location where each is named.
    """
    found: dict[str, list[str]] = {role: [] for role in roles if _is_name(role)}
    for profile, place in profiles.items():
        folder = _folder(profile, work_dir, env, place, report)
        if folder is None:
            continue
        texts = {role: text for role in found if (text := _fragment(folder / preset / f"{role}.md", place, report))}
        if not texts:
            message = f"the profile {profile!r} has no fragments for {preset!r}"
            report(place.locate(warning("idle-profile", message, hint=f"it would be in {folder / preset}")))
        for role, text in texts.items():
            found[role].append(text)
    return {role: joined(texts) for role, texts in found.items() if texts}


def _folder(profile: str, work_dir: Path, env: Mapping[str, str], place: TextLocation, report: Report) -> Path | None:
    scope, colon, name = profile.partition(":")
    if scope not in SCOPES or not colon or not _is_name(name):
        message = f"{profile!r} is not the name of a profile"
        report(place.locate(error("bad-profile", message, hint="write repo:NAME or user:NAME")))
        return None
    among = scope_folder(scope, work_dir, env) / "profiles"
    folder = among / name
    if files.is_folder(folder):
        return folder
    there = sorted(each.name for each in among.iterdir() if each.is_dir()) if among.is_dir() else []
    hint = did_you_mean(name, there) or f"it would be {folder}"
    report(place.locate(error("no-such-profile", f"there is no profile {profile!r}", hint=hint)))
    return None


def _is_name(name: str) -> bool:
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name


def _fragment(path: Path, place: TextLocation, report: Report) -> str:
    try:
        return bounds.read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as failure:
        reason = failure.strerror or failure
        report(place.locate(error("unreadable-file", f"the fragment {str(path)!r} cannot be read: {reason}")))
        return ""
