"""Change one setting in a file, keeping its comments and order."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base import agent_writes, files
from coterie.base.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.team.formats import bounds
from coterie.team.formats.settings.conversion import InvalidSetting, convert
from coterie.team.formats.settings.grammar import read
from coterie.team.formats.settings.keys import Key, keys

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def set_value(path: Path, name: str, text: str) -> None:
    """Write `name = text` into the TOML file at *path*, creating it if necessary.

    Raises:
        UsageError: If there is no such setting, its value is invalid, or the file is not TOML.
        OSError: If it cannot be written.
    """
    key = known(name)
    reading = read(f"{name} = {text}", "lines")
    if not reading.ok and key.type != "text":  # a text may be anything
        raise UsageError(reading.diagnostics[-1].summary)
    entries = reading.entries
    value, raw = (entries[0].value, entries[0].raw) if entries else (text, text)
    try:
        converted = convert(key, value, raw)
    except InvalidSetting as fault:
        raise UsageError(str(fault)) from None
    document = load_document(path)
    table = _table(document, name)
    table[name.rpartition(".")[2]] = _written(key, value, converted)
    save_document(path, document)


def allow(path: Path, rule: str, project: Path) -> None:
    """Add *rule* to `backend.allow` in the user's own file at *path* for *project*.

    Raises:
        UsageError: If the file is not TOML, or has something else there.
        OSError: If it cannot be written.
    """
    import tomlkit

    document = load_document(path)
    if not path.exists():
        document.add(tomlkit.comment(f"your settings for {project}"))
    table = _table(document, "backend.allow")
    rules = table.setdefault("allow", [])
    if not isinstance(rules, list):
        raise UsageError(f"backend.allow in {path} is not a list, so nothing was changed: correct it by hand")
    if rule not in rules:
        rules.append(rule)
        save_document(path, document)


def unset_value(path: Path, name: str) -> bool:
    """Remove the setting *name* from the TOML file at *path*; False if it was not set.

    Raises:
        UsageError: If there is no such setting, or the file is not TOML.
        OSError: If it cannot be written.
    """
    known(name)
    if not path.exists():
        return False
    document = load_document(path)
    section, _, leaf = name.rpartition(".")
    table = document.get(section)
    if not isinstance(table, dict) or leaf not in table:
        return False
    del table[leaf]
    if not table:
        del document[section]
    save_document(path, document)
    return True


def known(name: str) -> Key:
    """The setting called *name*.

    Raises:
        UsageError: If there is none.
    """
    key = keys().get(name)
    if key is None:
        hint = did_you_mean(name, keys()) or "`coterie config show` lists them"
        raise UsageError(f"unknown setting {name!r}: {hint}")
    return key


def load_document(path: Path) -> "TOMLDocument":
    """The TOML file at *path*; an empty document if there is none."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        text = bounds.read_bytes(path).decode()
        if why := agent_writes.refusal(path):
            raise UsageError(f"{path} is not changed: {why}")
        if (beyond := bounds.check_toml(text)) is not None:
            raise UsageError(f"{path} cannot be changed: {beyond.message}")
        return tomlkit.parse(text)
    except FileNotFoundError:
        return tomlkit.document()
    except (TOMLKitError, UnicodeDecodeError) as failure:
        raise UsageError(f"{path} is not TOML, so nothing was changed: {failure}") from None


def _table(document: "TOMLDocument", name: str) -> Any:
    """The table of *name*, created if necessary."""
    import tomlkit

    section = name.rpartition(".")[0]
    if section not in document:
        document[section] = tomlkit.table()
    table = document[section]
    if not isinstance(table, dict):
        raise UsageError(f"{section!r} is not a table in the file, so nothing was changed: correct it by hand")
    return table


def _written(key: Key, value: Any, converted: Any) -> Any:
    """*value* for TOML: lists and numbers as such, a duration as given."""
    if key.type in ("duration", "ms"):
        return int(value) if isinstance(value, str) and value.strip().isdigit() else value
    if key.type == "commands":
        return [list(command) for command in converted]
    return list(converted) if isinstance(converted, tuple) else converted


def save_document(path: Path, document: "TOMLDocument") -> None:
    """Write *document* to *path*."""
    import tomlkit

    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_text(path, text := tomlkit.dumps(document))
    agent_writes.trust(path, text.encode())
