"""All codes of findings: of reading, the checks, planning, loops, inputs of patterns, proofs, and the machine."""

from coterie.base.diagnostics import Severity
from coterie.team.formats.codes import CODES as READING
from coterie.team.topology.checks.codes import CODES as CHECKING
from coterie.team.topology.checks.codes import Code

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

PLANNING = (
    Code("bad-command", _E, "A command cannot be split into words."),
    Code("bad-mapping", _E, "A compound maps a key that the previous team does not output.", pattern=True),
    Code("bad-plugin", _E, "A plugin cannot be imported; only `--import` and `run` look.", in_files=False, system=True),
    Code("cannot-run-group", _E, "The flow leads through a group, which cannot run yet."),
    Code("fragment", _E, "A fragment cannot run by itself; a topology includes it."),
    Code("idle-key", _W, "A key of the coterie extension is for other backends than the agent's."),
    Code("missing-tls-file", _W, "The certificate or a key of a gateway does not exist.", system=True),
    Code("items-share-files", _E, "A mapped coding agent can change files while other items of its set run."),
    Code("no-command", _E, "An agent has the backend `command`, but no command."),
    Code("no-flow", _E, "The topology has no flow, so there is nothing to run."),
    Code("no-provider", _E, "An agent uses a model without a known provider."),
    Code(
        "no-such-class", _E, "A class cannot be imported; only `--import` and `run` look.", in_files=False, system=True
    ),
    Code("no-such-tool", _W, "An agent names a tool that nothing provides, or that it may never use."),
    Code("not-enforced", _W, "A rule about safety has no effect on some agents, because of their backend."),
    Code("not-executed", _N, "A part of the file is kept and shown, but has no effect yet."),
    Code("param-not-set", _E, "A parameter without a default has no value; `--set NAME=VALUE` gives it one."),
    Code("registry-import", _E, "A topology is imported from a registry; nothing is downloaded."),
    Code("shell-syntax", _W, "A command contains shell syntax, but no shell runs it."),
    Code("too-many-topologies", _E, "A plan contains too many topologies.", in_files=False),
    Code("topology-cycle", _E, "A topology contains itself."),
    Code("two-thinkers", _E, "An agent has two backends."),
    Code("unknown-backend", _E, "Unknown backend."),
    Code("unknown-key", _W, "Unknown key of the coterie extension at this place."),
    Code("unknown-language", _E, "Commands are in an unsupported language.", in_files=False),
)
"""The codes of planning, in alphabetical order."""

LOOPS = (
    Code("bad-override", _E, "An override on the command line is not `key=value`.", in_files=False, loop=True),
    Code("bad-pattern", _E, "An event in slashes is not a valid regular expression.", loop=True),
    Code("bad-profile", _E, "The name of a profile is not `repo:NAME` or `user:NAME`.", loop=True),
    Code("bad-prompt-mode", _W, "The prompt mode of a command is only for ACP.", loop=True),
    Code("bad-setting", _E, "A setting has a value of the wrong type.", loop=True),
    Code("file-gone", _E, "A file of a running loop was removed.", in_files=False, loop=True),
    Code("file-ignored", _W, "A file of settings did not exist when the run began.", in_files=False, loop=True),
    Code("fixed-setting", _W, "A setting that is fixed for a run was changed.", in_files=False, loop=True),
    Code("idle-arguments", _W, "A backend has arguments, but its kind accepts none.", loop=True),
    Code("idle-profile", _W, "A profile applies to no role of the loop.", in_files=False, loop=True),
    Code("idle-provider", _W, "A backend has a provider, but its kind has none.", loop=True),
    Code("idle-setting", _W, "A setting of a backend is for other kinds of backends.", loop=True),
    Code("no-arguments", _E, "A backend that accepts no arguments got some.", in_files=False, loop=True),
    Code("no-emits", _E, "A role has no `emits`.", loop=True),
    Code("no-role-id", _E, "A role has no id.", loop=True),
    Code("no-such-config", _W, "`AUTOLOOP_CONFIG` names no file.", in_files=False, loop=True),
    Code("no-such-profile", _E, "A profile does not exist.", loop=True),
    Code("no-such-role", _W, "`agents.toml` names a role that the loop does not have.", loop=True),
    Code("no-such-text", _W, "A text file named in the settings does not exist.", loop=True),
    Code("nobody-completes", _W, "No role may emit the event that completes the loop.", loop=True),
    Code("not-toml", _E, "A file is not valid TOML.", loop=True),
    Code("output-never-given", _W, "The team of a role never returns an output that selects its event.", loop=True),
    Code("raw-state-path", _W, "A text names `.autoloop`, but the state may be elsewhere.", loop=True),
    Code("required-event-missing", _W, "An event required for completion is never emitted.", loop=True),
    Code("role-keeps-backend", _W, "A role sets its backend, so `-b` does not apply to it.", in_files=False, loop=True),
    Code("skipped-line", _W, "A line of the settings is invalid and skipped.", loop=True),
    Code("unclosed-value", _E, "A value in the settings is not closed.", loop=True),
    Code("unknown-placeholder", _E, "A text contains an unknown placeholder.", loop=True),
    Code("unknown-setting", _W, "Unknown setting; it is kept, but has no effect.", loop=True),
    Code("unreachable-role", _W, "No chain of events leads to a role.", loop=True),
    Code("unrouted-event", _W, "An event is in no key of the handoff map, so it leads to all roles.", loop=True),
)
"""The codes of reading and planning the folder of a loop, in alphabetical order."""

INPUTS = (
    Code("bad-input", _E, "An input of a pattern has the wrong type.", in_files=False, pattern=True),
    Code("bad-route", _E, "The input selects an unknown route of a compound.", in_files=False, pattern=True),
    Code("missing-input", _E, "The input of a pattern has no task.", in_files=False, pattern=True),
    Code("no-match", _E, "No slot of a delegation has the required capabilities.", in_files=False, pattern=True),
)
"""The codes of the inputs of patterns, in alphabetical order."""

PROOFS = (
    Code("cannot-complete", _W, "No way leads to the event that completes a loop.", in_files=False, loop=True),
    Code(
        "counted", _N, "A team is counted with all its turns or iterations, as it decides when it runs.", in_files=False
    ),
    Code("endless", _E, "A run can go on forever.", in_files=False),
    Code("ends-early", _W, "A run can complete without some nodes.", in_files=False),
    Code("join-in-part", _N, "A node with several arrows into it can start with some of them alone.", in_files=False),
    Code("never-fires", _W, "An arrow can never fire.", in_files=False),
    Code(
        "never-first",
        _N,
        "A role is only suggested beside others: its own backend is never called.",
        in_files=False,
        loop=True,
    ),
    Code("never-holds", _W, "A condition can never hold.", in_files=False),
    Code("never-runs", _W, "No arrow into a node ever fires.", in_files=False),
    Code("no-way-back", _W, "After some event a loop cannot complete any more.", in_files=False, loop=True),
    Code("not-proved", _N, "Nothing bounds a part of a team, or it is known only when it runs.", in_files=False),
    Code("path-ends", _N, "A path can end at a node, because none of its arrows fires.", in_files=False),
    Code("read-too-early", _W, "A condition can read an output before it is given.", in_files=False),
    Code("required-never-comes", _W, "An event required for completion can never come.", in_files=False, loop=True),
    Code("rounds-without-end", _W, "A human may grant further rounds without end.", in_files=False),
    Code("spent", _N, "The bound of an arrow can be reached while its condition holds.", in_files=False),
    Code("too-few-iterations", _W, "A loop needs more iterations than it has.", in_files=False, loop=True),
    Code("too-many-states", _N, "A loop has too many states to be explored.", in_files=False, loop=True),
    Code("unread-output", _N, "No condition reads an output.", in_files=False),
)
"""The codes of what `coterie check` proves, in alphabetical order."""

MACHINE = (
    Code("no-api-key", _E, "The key of a provider is not in the environment.", in_files=False),
    Code("no-backend", _E, "An agent has no backend configured; `-b` gives it one.", in_files=False),
    Code("no-class", _E, "The class of an agent cannot be imported here.", in_files=False, system=True),
    Code("no-models", _E, "The extra `models` is not installed.", in_files=False),
    Code("no-sandbox", _E, "An agent requires a sandbox, and none works here.", in_files=False),
    Code("no-system", _E, "An agent of a supervised system is called outside of one.", in_files=False, system=True),
    Code("program-not-here", _N, "The program of an agent is not on the PATH yet.", in_files=False),
    Code("unreadable", _E, "A file cannot be read.", in_files=False),
    Code("wrong-sha256", _E, "An imported file differs from the SHA-256 beside it.", in_files=False),
)
"""The codes of what a machine or the moment lacks, in alphabetical order."""

CODES = tuple(sorted((*READING, *CHECKING, *PLANNING, *LOOPS, *INPUTS, *PROOFS, *MACHINE), key=lambda code: code.code))
"""All codes, in alphabetical order."""
