"""`coterie state …`: the state that agents checkpointed, and the files that are derived from journals."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from coterie.interfaces.cli.options import STATE_DIR, AsJson, StateDir
from coterie.interfaces.cli.output import at_terminal, complain, confirm, print_result, say
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from coterie.agents.actors.state.base import StateStore
    from coterie.agents.actors.state.migration import StateCopy
    from coterie.team.planning.system import PluginPlan

T = TypeVar("T")

TOPOLOGY = "topology.yaml"
"""The file whose state plugin is used unless another is named."""

Db = Annotated[
    str,
    Opt(
        "--db FILE",
        "The SQLite database, or a topology.yaml whose state plugin is used. By default the topology.yaml of this "
        "directory if it declares one, else agency_state.db.",
    ),
]
Force = Annotated[bool, Opt("-f, --force", "Do not ask.")]


def list_(db: Db = "", as_json: AsJson = False) -> int:
    """List the agents that have a state."""
    from coterie.agents.actors.state.migration import plan_copies
    from coterie.interfaces.cli.text.words import table

    async def main(stack: "AsyncExitStack") -> "list[StateCopy]":
        store = _store(db, stack)
        return await plan_copies(store, None) if store is not None else []

    found = _run(main)
    rows = [[one.agent_name, f"{one.size} B"] for one in found]
    print_result(
        as_json,
        [{"agent": one.agent_name, "bytes": one.size} for one in found],
        lambda: table(rows, ("agent", "size")) if rows else "no agent has stored a state",
    )
    return 0


def show(agent: Annotated[str, Arg("AGENT", "The agent's name.")], db: Db = "", as_json: AsJson = False) -> int:
    """Show the state of an agent."""
    import json

    async def main(stack: "AsyncExitStack") -> Any:
        store = _store(db, stack)
        state = await store.get(agent) if store is not None else None
        if store is None or state is None:
            raise _no_state(agent, await store.list_agents() if store is not None else [])
        return state

    state = _run(main)
    print_result(as_json, state, lambda: json.dumps(state, indent=2, ensure_ascii=False))
    return 0


def clear(
    agent: Annotated[str, Arg("[AGENT]", "Only the state of this agent.")] = "", force: Force = False, db: Db = ""
) -> int:
    """Delete the states of all agents, or of one. An agent that runs keeps its state until it restarts."""
    from coterie.errors import UsageError
    from coterie.execution.runs.authority import check_operator

    check_operator()

    async def main(stack: "AsyncExitStack") -> int:
        store = _store(db, stack)
        known = await store.list_agents() if store is not None else []
        if agent and agent not in known:
            raise _no_state(agent, known)
        names = [agent] if agent else known
        if store is None or not names:
            say("no agent has stored a state")
            return 0
        if not force:
            if not at_terminal():
                raise UsageError(f"this would delete the states of {', '.join(names)}: add --force")
            if not confirm(f"Delete the states of {', '.join(names)}?"):
                return 1
        for name in names:
            await store.delete(name)
        say(f"deleted the states of {', '.join(names)}")
        return 0

    return _run(main)


def migrate(
    source: Annotated[str, Arg("SRC", "A database, or a topology.yaml with a state plugin.")],
    target: Annotated[str, Arg("DST", "The same; a new database is created.")],
    execute: Annotated[bool, Opt("--execute / --dry-run", "Copy, or only show what would be.")] = False,
    force: Annotated[bool, Opt("-f, --force", "Replace states that differ in DST.")] = False,
    as_json: AsJson = False,
) -> int:
    """Copy the states of all agents to another store. SRC is not changed."""
    from coterie.agents.actors.state.migration import copy, plan_copies
    from coterie.execution.runs.authority import check_operator
    from coterie.interfaces.cli.text.words import table

    if execute:
        check_operator()

    async def main(stack: "AsyncExitStack") -> "tuple[list[StateCopy], bool]":
        store = _store(source, stack)
        assert store is not None
        there = _store(target, stack, is_target=True, create=execute)
        copies = await plan_copies(store, there)
        refused = not force and any(one.action == "replace" for one in copies)
        if execute and there is not None and not refused:
            await copy(store, there, copies)
        return copies, refused

    copies, refused = _run(main)

    def text() -> str:
        rows = [[one.agent_name, f"{one.size} B", one.action] for one in copies]
        return table(rows, ("agent", "size", "action")) if rows else f"no agent has stored a state in {source}"

    print_result(as_json, copies, text)
    if refused:
        names = ", ".join(one.agent_name for one in copies if one.action == "replace")
        complain(f"coterie: {target} holds other states of {names}: nothing was written; add --force to replace them")
        return int(execute)
    if not execute:
        complain("nothing was written: add --execute")
    return 0


def rebuild(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Rewrite the journal of the earlier system (core.journal_file) for all loops that ran here.

    It is derived from the runs' journals, which do not change. Lines of active runs and of deleted runs are kept.
    """
    from coterie.execution.kinds.loop.projection_file import rebuild
    from coterie.execution.runs import index
    from coterie.execution.runs.attempt_folders import AttemptFolders
    from coterie.execution.runs.authority import check_operator
    from coterie.execution.runs.repository import Runs

    check_operator()
    made: dict[Path, int] = {}
    for home in index.homes(state_dir):
        runs = Runs(home)
        known = runs.list()
        living = [run for run in known if runs.status(run) == "running"]
        for run in living:
            complain(f"coterie: {run} is active and writes its lines itself: they are kept as they are")
        made |= rebuild(runs.local, [run for run in known if run not in living], AttemptFolders(runs))

    def text() -> str:
        lines = [f"{file}: {count} run{'s' * (count != 1)}" for file, count in made.items()]
        return "\n".join(lines) or "no loop here has such a file"

    print_result(as_json, [{"file": str(file), "runs": count} for file, count in made.items()], text)
    return 0


def _run(main: "Callable[[AsyncExitStack], Coroutine[Any, Any, T]]") -> T:
    """The result of *main*, whose stores are closed."""

    import asyncio
    from contextlib import AsyncExitStack

    async def closing() -> T:
        async with AsyncExitStack() as stack:
            return await main(stack)

    return asyncio.run(closing())


def _store(
    place: str, stack: "AsyncExitStack", *, is_target: bool = False, create: bool = False
) -> "StateStore | None":
    """The store at *place*, by default the one of this directory.

    It is None if it does not exist and is the default or a target, unless *create*.

    Raises:
        CoterieError: If it cannot be used.
    """
    from coterie.agents.actors.plugins.loading import make
    from coterie.agents.actors.state.sqlite import DB_PATH, SQLiteStateStore
    from coterie.errors import StateFailed, UsageError
    from coterie.team.planning.system import PluginPlan

    if "://" in place:
        hint = "name a database file, or a topology.yaml whose plugins.state declares the store"
        raise UsageError(f"{place.partition('://')[0]}://… is not a store of states: {hint}")
    plugin = PluginPlan(type="sqlite", config={"db_path": place.removeprefix("sqlite:") or DB_PATH})
    if place.endswith((".yaml", ".yml")):
        plugin = _declared(Path(place))
        if plugin.type == "in_memory":
            raise StateFailed(place, "its agents keep their states in memory, which ends with their process")
    elif not place and Path(TOPOLOGY).is_file() and (declared := _declared(Path(TOPOLOGY))).type != "in_memory":
        plugin = declared
    store: StateStore = make("state", plugin, "plugins.state")
    if isinstance(store, SQLiteStateStore) and not create and not (path := store.path).exists():
        if place and not is_target:
            raise StateFailed(path, "there is no such file")
        return None
    stack.push_async_callback(store.close)
    return store


def _declared(file: Path) -> "PluginPlan":
    """The state plugin that *file*, a topology, declares.

    Raises:
        TopologyError: If it cannot be read.
        UsageError: If it describes no supervised system.
    """
    from coterie.agents.actors.classes import importable
    from coterie.errors import UsageError
    from coterie.team.formats import read
    from coterie.team.planning.system import PluginPlan

    system = read(file).valid().system
    if system is None:
        raise UsageError(f"{file} describes no supervised system, so it declares no store of states")
    importable(str(file.parent))
    return system.plugins.state or PluginPlan(type="in_memory")


def _no_state(agent: str, known: list[str]) -> Exception:
    from coterie.base.diagnostics import did_you_mean
    from coterie.errors import CoterieError

    hint = did_you_mean(agent, known) or (f"these have one: {', '.join(known)}" if known else "no agent has one")
    return CoterieError(f"agent {agent!r} has no state; {hint}")
