"""Every code there is: those of reading, of the checks, of planning, of loops, and of what patterns are given."""

from coterie.diagnostics import Severity
from coterie.formats.codes import CODES as READING
from coterie.topology.checks.codes import CODES as CHECKING
from coterie.topology.checks.codes import Code

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

PLANNING = (
    Code("bad-command", _E, "A command cannot be split into words."),
    Code("bad-mapping", _E, "A compound hands on what the team before does not give.", pattern=True),
    Code("cannot-run-group", _E, "The flow leads through a group, which cannot be run yet."),
    Code("fragment", _E, "A fragment is not run by itself: a topology includes it."),
    Code("idle-key", _W, "A key of the coterie extension is for models, and no model is asked."),
    Code("no-command", _E, "An agent is to be a command, and none is given."),
    Code("no-flow", _E, "The topology has no flow: there is nothing to run."),
    Code("no-provider", _E, "An agent is to be a model, and nobody says who serves it."),
    Code("no-such-tool", _N, "An agent names a tool that nobody provides."),
    Code("not-executed", _N, "Something is read, kept and shown, and has no effect yet."),
    Code("param-not-set", _E, "A parameter without a default has no value; `--set NAME=VALUE` gives it one."),
    Code("registry-import", _E, "A topology is imported from a registry, which coterie does not ask."),
    Code("shell-syntax", _W, "A command holds signs that only a shell would read."),
    Code("too-many-topologies", _E, "One plan holds too many topologies.", in_files=False),
    Code("topology-cycle", _E, "A topology is a part of itself."),
    Code("two-thinkers", _E, "An agent has two backends."),
    Code("unknown-backend", _E, "There is no such backend."),
    Code("unknown-key", _W, "A key of the coterie extension has no meaning where it stands."),
    Code("unknown-language", _E, "Commands are in a language that nothing runs.", in_files=False),
)
"""Those of planning, in the order of the alphabet."""

LOOPS = (
    Code("bad-override", _E, "What the command line sets is no `key=value`.", in_files=False, loop=True),
    Code("bad-pattern", _E, "An event in slashes is no regular expression that can be used.", loop=True),
    Code("bad-profile", _E, "A profile is named otherwise than `repo:NAME` or `user:NAME`.", loop=True),
    Code("bad-prompt-mode", _W, "A prompt is to get to a command in a way that there is only for ACP.", loop=True),
    Code("bad-setting", _E, "A setting has a value of the wrong type.", loop=True),
    Code("file-gone", _E, "A file that a running loop was made of is not there any more.", in_files=False, loop=True),
    Code("fixed-setting", _W, "A setting was changed that is fixed when a run begins.", in_files=False, loop=True),
    Code("idle-arguments", _W, "A backend has arguments, and its kind takes none.", loop=True),
    Code("idle-profile", _W, "A profile has nothing for any role of the loop.", in_files=False, loop=True),
    Code("no-arguments", _E, "Arguments are given to a backend that takes none.", in_files=False, loop=True),
    Code("no-emits", _E, "A role does not say what it may emit.", loop=True),
    Code("no-role-id", _E, "A role has no id.", loop=True),
    Code("no-such-profile", _E, "A profile is not there.", loop=True),
    Code("no-such-text", _W, "A text that the settings name is not there.", loop=True),
    Code("nobody-completes", _W, "No role may emit the event that completes the loop.", loop=True),
    Code("not-toml", _E, "A file is not TOML.", loop=True),
    Code("output-never-given", _W, "The team of a role never gives an output that chooses its event.", loop=True),
    Code("raw-state-path", _W, "A text names `.autoloop`, and the state may lie elsewhere.", loop=True),
    Code("required-event-missing", _W, "An event that has to come before completion never does.", loop=True),
    Code("role-keeps-backend", _W, "A role has a backend of its own, whatever `-b` says.", in_files=False, loop=True),
    Code("skipped-line", _W, "A line of settings says nothing, and is skipped.", loop=True),
    Code("unclosed-value", _E, "A value of the settings is never closed.", loop=True),
    Code("unknown-placeholder", _E, "A text has a placeholder that there is not.", loop=True),
    Code("unknown-setting", _W, "There is no such setting; it is kept, and has no effect.", loop=True),
    Code("unreachable-role", _W, "No chain of events leads to a role.", loop=True),
    Code("unrouted-event", _W, "An event is in no key of the handoff map, so it leads to all roles.", loop=True),
)
"""Those of reading and planning the folder of a loop, in the order of the alphabet."""

INPUTS = (
    Code("bad-input", _E, "What a pattern is given has the wrong form.", in_files=False, pattern=True),
    Code("bad-route", _E, "A compound is to take a way that it does not have.", in_files=False, pattern=True),
    Code("missing-input", _E, "A pattern is given no task.", in_files=False, pattern=True),
    Code("no-match", _E, "No slot of a delegation can do what is asked.", in_files=False, pattern=True),
)
"""Those of what a pattern is given, in the order of the alphabet."""

CODES = tuple(sorted((*READING, *CHECKING, *PLANNING, *LOOPS, *INPUTS), key=lambda code: code.code))
"""All of them, in the order of the alphabet."""
