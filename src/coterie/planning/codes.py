"""Every code that `validate` can give: those of reading, of the checks, and of planning."""

from coterie.diagnostics import Severity
from coterie.formats.codes import CODES as READING
from coterie.topology.checks.codes import CODES as CHECKING
from coterie.topology.checks.codes import Code

__all__ = ["CHECKING", "CODES", "PLANNING", "READING", "Code"]

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

PLANNING = (
    Code("bad-command", _E, "A command cannot be split into words."),
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
    Code("two-thinkers", _E, "An agent says twice who thinks."),
    Code("unknown-backend", _E, "There is no such backend."),
    Code("unknown-key", _W, "A key of the coterie extension has no meaning where it stands."),
    Code("unknown-language", _E, "Commands are in a language that nothing runs.", in_files=False),
)
"""Those of planning, in the order of the alphabet."""

CODES = tuple(sorted((*READING, *CHECKING, *PLANNING), key=lambda code: code.code))
"""All of them, in the order of the alphabet."""
