"""What `coterie --help` prints: the commands in groups, without importing them.

A command without an entry fails a test, and so does a summary that is not the beginning of the command's help text.
"""

from collections.abc import Mapping

HEAD = """\
Usage: coterie COMMAND [OPTIONS]

Run teams of AI agents that survive being killed.
"""
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "Create a project with a small team that runs at once",
        "run": "Run a team.",
        "resume": "Continue a run from the end of its journal.",
        "fork": "Start a new run that shares the beginning of another one.",
        "presets": "List the built-in loops, or show the roles and events of one.",
        "doctor": "Check this machine and this folder for problems.",
    },
    "See": {
        "runs": "List the runs of this directory, newest first.",
        "watch": "Follow a run, from its beginning, until no process drives it.",
        "logs": "Show what the agents of a run print, and the tools they use",
        "inspect": "Inspect a run, or with RUN/TURN.ATTEMPT a child run.",
        "attention": "List what needs a person in runs and child runs, or answer it.",
        "ui": "Show all runs in the browser, live, and act on them.",
        "stats": "Summarize all runs: turns, cost and time in total",
        "replay": "Check that this version decides as a run's journal says.",
    },
    "Steer": {
        "control": "Control a run from another terminal.",
        "worktree": "List, inspect, merge and remove the git work trees of runs.",
        "state": "Manage states and dead letters of agents; rebuild files.",
    },
    "Files": {
        "validate": "Check files without running them.",
        "check": "Prove what a team can do before it runs.",
        "simulate": "Test that a team survives crashes, in virtual time.",
        "graph": "Draw a team: its nodes, arrows, conditions and bounds.",
        "fmt": "Format files.",
        "diff": "Compare two teams by meaning.",
        "topology": "Read a team's file without running anything.",
        "config": "Show and change the settings of loops.",
        "explain": "Explain a finding, a record, a setting, an option or a field.",
    },
    "Serve": {
        "submit": "Have a cluster run a team; print the id of the run.",
        "serve": "Be a node of a cluster: drive submitted runs and perform turns.",
        "cluster": "See and choose the releases of a cluster.",
        "zmq-proxy": "Run the ZeroMQ broker of a system whose transport is `zmq`.",
    },
    "For agents": {
        "emit": "Emit an event from within a turn",
        "memory": "Manage the memory of a loop.",
        "task": "Manage the tasks of a loop.",
        "mock-backend": "Act as an agent that follows a script",
    },
    "For the shell": {
        "completion": "Print the completion script of a shell.",
    },
}
"""The groups in their order, each with its commands and what they do."""
FOOT = """\
`coterie COMMAND -h` shows the options of a command.
"""


def overview() -> str:
    """Return the text: no line is longer than 80 characters."""
    parts = [HEAD]
    for title, commands in SECTIONS.items():
        lines = (f"  {name:13} {about.rstrip('.')}\n" for name, about in commands.items())
        parts.append(f"{title}:\n{''.join(lines)}")
    return "\n".join([*parts, FOOT])
