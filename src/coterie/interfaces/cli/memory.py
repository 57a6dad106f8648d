"""`coterie memory …`: the memory of a loop, for its project and for the run."""

from typing import Annotated

from coterie.interfaces.cli.emit import OfRun, Target, Words, change, files_of
from coterie.interfaces.cli.options import STATE_DIR, AsJson, StateDir
from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg, Opt


def add(
    kind: Annotated[str, Arg("learning|preference|meta", "The kind of entry.")],
    text: Annotated[list[str], Arg("[KEY] TEXT", "Its text; for meta, the key first.")],
    project: Annotated[bool, Opt("--project", "Store it for every run of the project, not only this one.")] = False,
    source: Annotated[str, Opt("--source NAME", "The source of a learning (manual).")] = "manual",
    category: Annotated[str, Opt("--category NAME", "The category of a preference (General).")] = "General",
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Add a learning, a preference of the project, or a named value (meta)."""
    from coterie.errors import UsageError

    note: dict[str, object] = {"do": "add", "type": kind}
    match kind, text:
        case "learning", _:
            note |= {"text": " ".join(text), "source": source, "project": project}
        case "preference", _:
            note |= {"text": " ".join(text), "category": category}
        case "meta", [key, value, *more]:
            note |= {"key": key, "value": " ".join([value, *more]), "project": project}
        case _:
            raise UsageError(f"write learning TEXT, preference TEXT or meta KEY TEXT, not {' '.join([kind, *text])!r}")
    return change("memory", note, run, state_dir)


def list_(run: OfRun = None, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the entries."""
    from coterie.agents.workspace.notes import Memory

    found = Memory.of(files_of("memory", run, state_dir))
    print_result(as_json, found.find(), lambda: found.listing() or "Nothing is remembered.")
    return 0


def find(text: Words, run: OfRun = None, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the entries that contain a text. The exit status is 1 if there are none."""
    from coterie.agents.workspace.notes import Memory

    memory = Memory.of(files_of("memory", run, state_dir))
    found = memory.find(" ".join(text))
    if found or as_json:
        print_result(as_json, found, lambda: memory.listing(" ".join(text)))
    return int(not found)


def remove(
    target: Target,
    reason: Annotated[str, Opt("--reason TEXT", "The reason (removed).")] = "removed",
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Remove an entry."""
    return change("memory", {"do": "remove", "target": target, "reason": reason}, run, state_dir)


def compact(run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Remove entries that a later one repeats."""
    return change("memory", {"do": "compact"}, run, state_dir)


def prune(
    max_age: Annotated[str, Opt("--max-age AGE", "30d, 12h or 1d12h.")],
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Remove entries older than an age."""
    return change("memory", {"do": "prune", "max_age": max_age}, run, state_dir)


def promote(target: Target, run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Move an entry from this run to the project."""
    return change("memory", {"do": "promote", "target": target}, run, state_dir)
