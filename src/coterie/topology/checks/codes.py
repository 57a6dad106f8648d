"""Every code that a check can give: how bad it is, what it means in a sentence, and the rule that finds it.

For pages and editors; nothing is checked here. Codes of the reader are in `coterie.formats.codes`, those of planning in
`coterie.planning.codes`, which has all of them together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coterie.diagnostics import Diagnostic, Severity
from coterie.topology.checks import (
    agents,
    arrows,
    attributes,
    composition,
    conduct,
    gates,
    knowledge,
    loops,
    names,
    operation,
    patterns,
    reach,
    roles,
    shape,
)
from coterie.topology.checks.facts import Facts


@dataclass(frozen=True, slots=True)
class Code:
    """What a diagnostic with this code says.

    Attributes:
        meaning: In a sentence, for users.
        rule: Finds it; None where it is found in reading or planning.
        in_files: A file can show it; else only a topology made in Python, one read from no file, or a command line.
        loop: It is about the folder of a loop.
        pattern: It is about a pattern file.
    """

    code: str
    severity: Severity
    meaning: str
    rule: Callable[[Facts], Iterator[Diagnostic]] | None = None
    in_files: bool = True
    loop: bool = False
    pattern: bool = False

    @property
    def about(self) -> str:
        """What the rule asks for, as its docstring has it; empty where there is none."""
        return " ".join((self.rule.__doc__ or "").split()) if self.rule is not None else ""


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
CODES = (
    Code("ambiguous-exhaustion", _W, "A spent loop has several ways forward, and their order decides.",
         loops.exhaustion_is_clear),
    Code("artifact-cycle", _W, "Artifacts are made from each other.", knowledge.artifacts_begin_somewhere),
    Code("bad-budget", _E, "A budget allows no turn.", patterns.budgets_leave_room, pattern=True),
    Code("bad-config", _E, "A setting of a pattern has a value that it cannot have.", patterns.pattern_fits,
         pattern=True),
    Code("bad-encryption", _W, "A variable is marked as encrypted, and its value is in no form that is known.",
         reach.variables_are_sealed),
    Code("bad-job", _W, "A scheduled job says twice, or not at all, when it is done or who does it.",
         operation.jobs_are_clear),
    Code("bad-scale", _E, "An agent is scaled to at least more instances than at most.", conduct.scales_have_room),
    Code("bad-skip", _W, "`skip` is no condition.", conduct.skips_can_be_judged),
    Code("bounce-back-to-no-agent", _W, "A gate sends work back to a node that will only do the same once more.",
         operation.work_is_sent_back_to_agents),
    Code("bounce-back-without-gate", _E, "A node that is no gate is to bounce work back.",
         agents.bounce_back_is_for_gates, in_files=False),
    Code("condition-not-upstream", _W, "A condition reads a node that does not come before its arrow.",
         arrows.conditions_look_upstream),
    Code("duplicate-name", _E, "Two nodes have one name.", names.declared_once),
    Code("duplicate-output", _E, "An agent declares an output twice.", agents.outputs_declared_once, in_files=False),
    Code("duplicate-role", _E, "Two roles of a loop have one id.", roles.roles_are_told_apart, loop=True),
    Code("empty-enum", _E, "An output of fixed values has none.", agents.outputs_declared_once, in_files=False),
    Code("empty-gate", _W, "A gate runs nothing, so it lets everything through.", agents.gates_do_something),
    Code("empty-level", _W, "Nobody belongs to a level of a chain of command, so it is skipped.",
         patterns.pattern_fits, pattern=True),
    Code("empty-prompt", _W, "A prompt is written and has no text.", conduct.prompts_say_something),
    Code("event-not-emitted", _E, "A team is to emit an event that its role does not emit.",
         roles.team_events_are_emitted, loop=True),
    Code("fallback-to-itself", _E, "A node falls back on itself.", names.declared_fallbacks),
    Code("fan-out-not-declared", _E, "Work goes to several at once, and the header does not list `fan-out`.",
         arrows.fan_out_is_declared),
    Code("gate-without-place", _E, "A gate does not say where it stands.", gates.gates_stand_on_arrows),
    Code("handoff-to-nobody", _W, "An event of a loop leads to a role that is not declared.",
         roles.handoffs_lead_to_roles, loop=True),
    Code("idle-config", _W, "A setting of a pattern changes nothing as the others are.", patterns.pattern_fits,
         pattern=True),
    Code("idle-events", _W, "When a team emits which event has no effect.", roles.team_events_have_effect, loop=True),
    Code("implied-max", _W, "Nothing bounds a conditional way back, so it counts as `max 10`.",
         loops.cycles_are_bounded),
    Code("incomplete-auth", _W, "A provider's way of knowing who asks lacks what it needs.", reach.providers_are_clear),
    Code("incomplete-server", _E, "A server has neither what starts it nor where it listens.",
         reach.servers_can_be_reached),
    Code("incomplete-store", _W, "A store lacks what its sort needs.", knowledge.stores_can_work),
    Code("joined-event", _W, "A role emits an event that only the join of a wave does.", roles.emitted_events_count,
         loop=True),
    Code("key-in-file", _E, "A key stands in the file, where a reference to an environment variable belongs.",
         reach.keys_stay_outside),
    Code("missing-slot", _E, "A pattern lacks a slot that its type asks for.", patterns.pattern_fits, pattern=True),
    Code("no-events", _E, "A team may emit several events, and nothing says when it emits which.",
         roles.teams_say_what_they_emit, loop=True),
    Code("no-model", _E, "An agent has no model, and nothing else says who thinks.", agents.somebody_thinks),
    Code("no-such-arrow", _E, "A gate stands on an arrow that the flow does not have.", gates.gates_stand_on_arrows),
    Code("not-a-number", _E, "A comparison of numbers has a side that can be none.", arrows.conditions_read_outputs),
    Code("not-an-entry", _E, "The interface enters where the flow does not start.",
         composition.interface_is_declared),
    Code("not-in-flow", _E, "The interface names a node that is not in the flow.", composition.interface_is_declared),
    Code("own-pattern", _N, "A pattern is a function of your own: it is looked at when it runs.",
         patterns.type_is_known, pattern=True),
    Code("race-of-one", _W, "A list of one races.", attributes.races_have_runners),
    Code("read-before-written", _W, "An agent reads what is only written after it, or elsewhere.",
         attributes.files_are_written_first),
    Code("reflection-without-loop", _W, "`reflection` stands on an arrow that does not go back.",
         attributes.reflections_go_back),
    Code("repeated-arrow", _W, "An arrow is drawn twice.", attributes.arrows_are_drawn_once),
    Code("reserved-role", _E, "A role goes by a name that the loop itself needs.", roles.roles_are_told_apart,
         loop=True),
    Code("scope-without-max", _W, "`per` or `on-max` stands without a `max`.", arrows.scope_needs_max),
    Code("sensitive-in-file", _W, "A value that is marked as sensitive stands in the file.",
         reach.variables_are_sealed),
    Code("silent-role", _W, "A role may emit nothing.", roles.roles_emit, loop=True),
    Code("skip-ends-path", _W, "When an agent is skipped, every arrow asks for the outputs that it did not give.",
         conduct.skips_leave_a_path),
    Code("spare-slot", _W, "A slot of a pattern is never asked.", patterns.pattern_fits, pattern=True),
    Code("tools-listed-twice", _E, "An agent lists both the tools that it may use and those that it may not.",
         conduct.tools_are_listed_one_way),
    Code("two-coordinations", _E, "A team has both a pattern and a flow.", patterns.one_thing_coordinates),
    Code("two-default-providers", _E, "Two providers are to come first.", reach.providers_are_clear),
    Code("unbounded-cycle", _E, "A cycle could go on for ever.", loops.cycles_are_bounded),
    Code("unconditional-beside-loop", _W, "An arrow without a condition stands beside a loop: it runs once, after it.",
         loops.loops_stand_alone),
    Code("unconnected-parts", _W, "The flow falls into parts that no arrow connects.", shape.flow_is_one_piece),
    Code("uncovered-output", _W, "An output has a value for which no arrow leads on.", arrows.outputs_are_covered),
    Code("unemitted-event", _W, "A loop hands an event on that nobody emits.", roles.handled_events_come, loop=True),
    Code("unhandled-action", _W, "The orchestrator lists the actions that it does, and one in the flow is missing.",
         operation.handled_actions_are_there),
    Code("unknown-agent", _E, "A name stands for a node that nothing declares.", names.declared_in_flow),
    Code("unknown-artifact", _W, "A name stands for an artifact that is not declared.",
         knowledge.artifacts_are_declared),
    Code("unknown-config", _E, "A pattern has no such setting.", patterns.pattern_fits, pattern=True),
    Code("unknown-output", _E, "A condition reads an output that its agent does not declare.",
         arrows.conditions_read_outputs),
    Code("unknown-pattern", _W, "A pattern of the header is nearly one that is known.",
         operation.patterns_are_spelt_right),
    Code("unknown-retrieval", _W, "A name stands for a retrieval that is not declared.",
         knowledge.stores_are_declared),
    Code("unknown-role", _W, "An agent has a role that is not described.", names.declared_roles),
    Code("unknown-schema", _W, "A type is neither simple nor a schema that is declared.",
         knowledge.schemas_are_declared),
    Code("unknown-scope", _E, "`per` names nothing that is declared.", names.declared_scopes),
    Code("unknown-secret-store", _W, "A secret lies in a store that is not known.", reach.variables_are_sealed),
    Code("unknown-server", _E, "An agent wants a server that is not declared.", reach.servers_are_declared),
    Code("unknown-skill", _W, "A name stands for a skill that is not declared.", knowledge.skills_are_declared),
    Code("unknown-slot", _E, "A pattern has no such slot.", patterns.pattern_fits, pattern=True),
    Code("unknown-store", _W, "A name stands for a store that is not declared.", knowledge.stores_are_declared),
    Code("unknown-tool", _W, "A skill brings a tool that is not declared.", knowledge.skills_are_declared),
    Code("unknown-type", _E, "There is no such type of pattern.", patterns.type_is_known, pattern=True),
    Code("unknown-value", _E, "A condition compares an output with a value that it cannot have.",
         arrows.conditions_read_outputs),
    Code("unprovided-model", _W, "No provider lists a model that an agent names.", conduct.models_are_provided),
    Code("unreachable-node", _W, "Nothing leads to a node from where the flow starts.", shape.everything_is_reached),
    Code("unused-agent", _W, "A node is declared and never in the flow.", names.used),
    Code("weights-not-one", _W, "Weights that share something make more or less than 1 together.",
         conduct.arrows_share_all),
)
# fmt: on
"""In the order of the alphabet."""
