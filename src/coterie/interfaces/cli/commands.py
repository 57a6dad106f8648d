"""The commands: where the function of each is, and what it does.

`coterie --help` prints this without importing a command. A summary that is not the beginning of the command's help text
fails a test.
"""

from collections.abc import Mapping

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all else here
if TYPE_CHECKING:
    from coterie.interfaces.cli.parameters import Command

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start": {
        "init": ("init.init", "Create a project with a small team that runs at once"),
        "run": ("run.run", "Run a team."),
        "chat": ("chat.chat", "Talk to a team: each line is a message, and a run of the thread."),
        "resume": ("run.resume", "Continue a run from the end of its journal."),
        "recover": ("recover.recover", "Resume the runs of this directory whose processes ended."),
        "fork": ("fork.fork", "Start a new run that shares the beginning of another one."),
        "presets": ("presets.presets", "List the built-in loops, or show the roles and events of one."),
        "doctor": ("doctor.doctor", "Check this machine and this folder for problems."),
    },
    "See": {
        "runs": ("runs.list_", "List the runs of this directory, newest first."),
        "watch": ("watch.watch", "Follow a run, from its beginning, until no process drives it."),
        "logs": ("logs.logs", "Show what the agents of a run print, and the tools they use"),
        "inspect": ("inspect.inspect", "Inspect a run, or with RUN/TURN.ATTEMPT a child run."),
        "threads": ("chat.threads", "List the threads of this directory: runs, team, last message."),
        "attention": ("attention.attention", "List what needs a person in runs and child runs, or answer it."),
        "ui": ("ui.ui", "Show all runs in the browser, live, and act on them."),
        "stats": ("inspect.stats", "Summarize all runs: turns, cost and time in total"),
        "replay": ("run.replay", "Check that this version decides as a run's journal says."),
    },
    "Steer": {
        "thread": ("", "Show and remove threads, the conversations over runs."),
        "control": ("", "Control a run from another terminal."),
        "worktree": ("", "List, inspect, merge and remove the git work trees of runs."),
        "state": ("", "Manage states and dead letters of agents; rebuild files."),
    },
    "Files": {
        "validate": ("topology.validate", "Check files without running them."),
        "check": ("check.check", "Prove what a team can do before it runs."),
        "simulate": ("simulate.simulate", "Test that a team survives crashes, in virtual time."),
        "graph": ("graph.graph", "Draw a team: its nodes, arrows, conditions and bounds."),
        "fmt": ("fmt.fmt", "Format files."),
        "diff": ("diff.diff", "Compare two teams by meaning."),
        "topology": ("", "Read a team's file without running anything."),
        "config": ("", "Show and change the settings of loops."),
        "explain": ("explain.explain", "Explain a finding, record, setting, command, option or field."),
    },
    "Serve": {
        "submit": ("cluster.submit", "Have a cluster run a team; print the id of the run."),
        "serve": ("cluster.serve", "Be a node of a cluster: drive submitted runs and perform turns."),
        "cluster": ("", "Manage the keys and the releases of a cluster."),
        "zmq-proxy": ("zmq_proxy.zmq_proxy", "Run the ZeroMQ broker of a system whose transport is `zmq`."),
    },
    "For agents": {
        "emit": ("emit.emit", "Emit an event from within a turn"),
        "memory": ("", "Manage the memory of a loop."),
        "task": ("", "Manage the tasks of a loop."),
        "mock-backend": ("mock_backend.mock_backend", "Act as an agent that follows a script"),
    },
    "For the shell": {
        "completion": ("completion.completion", "Print the completion script of a shell."),
    },
}
"""The commands in their order, each with its function in `coterie.interfaces.cli`, empty for a mere group, and what it
does."""

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

GROUPS: Mapping[str, Mapping[str, str]] = {
    name: {place.partition(".")[2].rstrip("_"): place for place in places.split()}
    for name, places in {
        "topology": "topology.validate topology.show check.check fmt.fmt diff.diff graph.graph topology.schema lsp.lsp",
        "runs": "runs.overview runs.diff runs.rm runs.prune",
        "thread": "chat.show chat.rm",
        "worktree": "worktrees.list_ worktrees.show worktrees.diff worktrees.merge worktrees.clean",
        "cluster": "cluster.key cluster.releases",
        "control": "control.respond control.guide control.interrupt control.stop control.withdraw",
        "memory": "memory.add memory.list_ memory.find memory.remove memory.compact memory.prune memory.promote",
        "task": "tasks.add tasks.complete tasks.update tasks.remove tasks.list_",
        "state": "state.list_ state.show state.clear state.migrate letters.letters state.rebuild",
        "config": "config.show config.set_ config.unset config.trust config.path",
    }.items()
}
"""The commands of groups, each with its function, which has its name."""

SHORT_FORMS = COMMANDS.keys() & GROUPS["topology"].keys()
"""Commands of `coterie topology` that need not name the group."""


def load(place: str) -> "Command":
    """Return the command at *place*, `module.function` in `coterie.interfaces.cli`; only its module is imported."""
    from importlib import import_module

    module, _, function = place.rpartition(".")
    found: Command = getattr(import_module(f"coterie.interfaces.cli.{module}"), function)
    return found
