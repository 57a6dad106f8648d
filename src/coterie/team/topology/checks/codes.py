"""Every diagnostic code of a check: its severity, its meaning in a sentence, and the rule that reports it.

For documentation and editors; nothing is checked here. `coterie.team.formats.codes` has the readers' codes;
`coterie.team.planning.codes` has those of planning, and all of them together.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, Severity
from coterie.team.topology.checks import (
    agents,
    arrows,
    attributes,
    composition,
    conduct,
    gates,
    knowledge,
    loops,
    maps,
    names,
    operation,
    patterns,
    reach,
    roles,
    shape,
    systems,
)
from coterie.team.topology.checks.facts import Facts


class Code(Struct, frozen=True):
    """A diagnostic code.

    Attributes:
        meaning: One sentence for users.
        rule: The rule that reports it; None if reading or planning does.
        in_files: Whether it can occur in a file, and not only in a topology made in Python or from text, or on a
            command line.
        loop: Whether it concerns a loop's folder.
        pattern: Whether it concerns a pattern file.
        system: Whether it concerns a supervised system's file.
    """

    code: str
    severity: Severity
    meaning: str
    rule: Callable[[Facts], Iterator[Diagnostic]] | None = None
    in_files: bool = True
    loop: bool = False
    pattern: bool = False
    system: bool = False

    @property
    def about(self) -> str:
        """The rule's requirement, from its docstring; empty without a rule."""
        return " ".join((self.rule.__doc__ or "").split()) if self.rule is not None else ""


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
CODES = (
    Code("ambiguous-exhaustion", _W, "An exhausted loop has several forward arrows, and their order decides.",
         loops.exhaustion_is_clear),
    Code("artifact-cycle", _W, "Artifacts are made from each other.", knowledge.artifacts_begin_somewhere),
    Code("bad-auth", _E, "The authentication of a gateway lacks its token or key, or has two.",
         systems.clients_can_be_known, system=True),
    Code("bad-budget", _E, "A budget allows no turn.", patterns.budgets_leave_room, pattern=True),
    Code("bad-class", _E, "The class of an agent is not the dotted path of a class.",
         systems.classes_have_paths, system=True),
    Code("bad-config", _E, "A setting of a pattern has an invalid value.", patterns.pattern_fits,
         pattern=True),
    Code("bad-encryption", _W, "A variable is marked as encrypted, but its value has no known encrypted form.",
         reach.variables_are_sealed),
    Code("bad-job", _W, "A scheduled job has no schedule or agent, or more than one.",
         operation.jobs_are_clear),
    Code("bad-scale", _N, "An agent's minimum number of instances exceeds the maximum.", conduct.scales_have_room),
    Code("bad-skip", _W, "`skip` is not a valid condition.", conduct.skips_can_be_judged),
    Code("bad-until", _E, "The `until` of a mapped node does not read its own items.", maps.conditions_say_which_items),
    Code("bounce-back-to-no-agent", _W, "A gate sends work back to a node that would only repeat the same work.",
         operation.work_is_sent_back_to_agents),
    Code("bounce-back-without-gate", _E, "A node other than a gate is set to bounce work back.",
         agents.bounce_back_is_for_gates, in_files=False),
    Code("capped-backoff", _W, "The initial delay of a backoff is above its maximum.",
         systems.backoffs_fit, system=True),
    Code("condition-not-upstream", _W, "A condition reads a node that does not come before its arrow.",
         arrows.conditions_look_upstream),
    Code("duplicate-name", _E, "Two nodes have the same name.", names.declared_once),
    Code("duplicate-output", _E, "An agent declares an output twice.", agents.outputs_declared_once, in_files=False),
    Code("duplicate-role", _E, "Two roles of a loop have the same id.", roles.roles_are_told_apart, loop=True),
    Code("each-without-bound", _E, "A mapped node has no `at-most`.", maps.maps_are_bounded),
    Code("empty-enum", _E, "An enum output has no values.", agents.outputs_declared_once, in_files=False),
    Code("empty-gate", _W, "A gate runs no command, so it lets everything through.", agents.gates_do_something),
    Code("empty-level", _W, "A level of a chain of command has no agent, so it is skipped.",
         patterns.pattern_fits, pattern=True),
    Code("empty-prompt", _W, "A prompt is empty.", conduct.prompts_say_something),
    Code("empty-supervisor", _E, "A supervisor has no children.",
         systems.supervisors_have_children, system=True),
    Code("event-not-emitted", _E, "A team emits an event that its role does not emit.",
         roles.team_events_are_emitted, loop=True),
    Code("fallback-to-itself", _E, "A node is its own fallback.", names.declared_fallbacks),
    Code("fan-out-not-declared", _E, "Work goes to several nodes at once, but the header does not list `fan-out`.",
         arrows.fan_out_is_declared),
    Code("gate-before-items", _E, "A gate is mapped, or is on an arrow into a mapped node.", maps.maps_can_run),
    Code("gate-without-place", _E, "A gate has no position.", gates.gates_stand_on_arrows),
    Code("handoff-to-nobody", _W, "An event of a loop leads to a role that is not declared.",
         roles.handoffs_lead_to_roles, loop=True),
    Code("handoffs-lead-nowhere", _E, "No event of a loop leads to a declared role.",
         roles.some_handoff_leads_to_a_role, loop=True),
    Code("idle-config", _W, "A setting of a pattern has no effect given the others.", patterns.pattern_fits,
         pattern=True),
    Code("idle-events", _W, "A condition in `events` has no effect.", roles.team_events_have_effect, loop=True),
    Code("idle-process", _W, "An agent is for another process, but the transport has one only.",
         systems.transport_fields_are_used, system=True),
    Code("idle-tolerate", _E, "`tolerate` is on a node whose failures are skipped anyway.", maps.maps_can_run),
    Code("idle-transport", _W, "A field of the transport has no effect with the transport in use.",
         systems.transport_fields_are_used, system=True),
    Code("implied-max", _W, "A conditional back arrow is unbounded, so `max 10` applies.",
         loops.cycles_are_bounded),
    Code("incomplete-auth", _W, "A provider's authentication is incomplete.", reach.providers_are_clear),
    Code("incomplete-server", _E, "A server has neither a command nor a url.",
         reach.servers_can_be_reached),
    Code("incomplete-store", _W, "A store lacks a field that its type needs.", knowledge.stores_can_work),
    Code("incomplete-tls", _E, "A gateway lacks a certificate, its key, or a port.",
         systems.gateways_can_serve, system=True),
    Code("items-not-said", _E, "A condition on a mapped node says neither `any` nor `all`.",
         maps.conditions_say_which_items),
    Code("joined-event", _W, "A role emits an event that only the join of a wave does.", roles.emitted_events_count,
         loop=True),
    Code("key-in-file", _E, "The file contains a key instead of a reference to an environment variable.",
         reach.keys_stay_outside),
    Code("list-may-be-missing", _W, "A mapped node may start before its list is there.", maps.maps_follow_their_lists),
    Code("missing-slot", _E, "A pattern lacks a slot that its type requires.", patterns.pattern_fits, pattern=True),
    Code("name-conflict", _E, "An agent and a supervisor have the same name.",
         systems.names_are_unique, system=True),
    Code("no-events", _E, "A team may emit several events, but `events` does not say when.",
         roles.teams_say_what_they_emit, loop=True),
    Code("no-items", _E, "A condition says `any` or `all` of a node that is not mapped.",
         maps.conditions_say_which_items),
    Code("no-model", _E, "An agent has neither a model nor another backend.", agents.somebody_thinks),
    Code("no-such-arrow", _E, "A gate is placed on an arrow that the flow does not have.", gates.gates_stand_on_arrows),
    Code("not-a-list", _E, "A node is mapped over an output that is not declared as a list.", maps.maps_have_lists),
    Code("not-a-number", _E, "A comparison of numbers has a non-numeric side.", arrows.conditions_read_outputs),
    Code("not-an-entry", _W, "The interface's entry is not where the flow starts.",
         composition.interface_is_declared),
    Code("not-in-flow", _E, "The interface names a node that is not in the flow.", composition.interface_is_declared),
    Code("open-endpoint", _E, "Other machines can reach an endpoint without authentication.",
         systems.endpoints_are_guarded, system=True),
    Code("own-pattern", _N, "A pattern is a custom function: it is checked when it runs.",
         patterns.type_is_known, pattern=True),
    Code("race-of-one", _W, "A race has only one node.", attributes.races_have_runners),
    Code("read-before-written", _W, "An agent reads a file that is only written later or on another path.",
         attributes.files_are_written_first),
    Code("reflection-without-loop", _W, "`reflection` is on an arrow that does not go back.",
         attributes.reflections_go_back),
    Code("repeated-address", _E, "The two addresses of a ZMQ broker are the same.",
         systems.broker_addresses_differ, system=True),
    Code("repeated-arrow", _W, "An arrow is written twice.", attributes.arrows_are_drawn_once),
    Code("repeated-route", _W, "An earlier route of a gateway has the same method and path.",
         systems.routes_lead_to_agents, system=True),
    Code("reserved-role", _E, "A role has a reserved id.", roles.roles_are_told_apart,
         loop=True),
    Code("scope-without-max", _W, "`per` or `on-max` is written without `max`.", arrows.scope_needs_max),
    Code("sensitive-in-file", _W, "The file contains a value that is marked as sensitive.",
         reach.variables_are_sealed),
    Code("serial-fan-out", _W, "A way back makes the branches of a fan-out run one after the other.",
         loops.fan_outs_run_at_once),
    Code("short-class", _N, "The class of an agent has no module; it is given in Python.",
         systems.classes_have_paths, system=True),
    Code("silent-role", _W, "A role emits no event.", roles.roles_emit, loop=True),
    Code("skip-ends-path", _W, "When an agent is skipped, all its arrows need outputs that it did not produce.",
         conduct.skips_leave_a_path),
    Code("spare-slot", _W, "A slot of a pattern is never called.", patterns.pattern_fits, pattern=True),
    Code("tools-listed-twice", _E, "An agent lists both allowed and disallowed tools.",
         conduct.tools_are_listed_one_way),
    Code("transient-supervisor", _W, "A supervisor is not restarted after it gave up.",
         systems.supervisors_come_back, system=True),
    Code("two-coordinations", _E, "A team has both a pattern and a flow.", patterns.one_thing_coordinates),
    Code("two-default-providers", _E, "Two providers are marked as default.", reach.providers_are_clear),
    Code("two-maps", _E, "Two arrows map one node in different ways.", maps.maps_agree),
    Code("type-as-value", _W, "The only value of an output looks like the name of a type.", agents.enums_are_meant),
    Code("unbounded-cycle", _E, "A cycle has no bound and could run forever.", loops.cycles_are_bounded),
    Code("unconditional-beside-loop", _W, "An unconditional arrow beside a loop: its target runs once, after it.",
         loops.loops_stand_alone),
    Code("unconnected-parts", _W, "The flow falls into parts that no arrow connects.", shape.flow_is_one_piece),
    Code("uncovered-output", _W, "An output has a value that no arrow covers.", arrows.outputs_are_covered),
    Code("undeclared-output", _W, "All arrows of a node read outputs that its agent need not give.",
         arrows.ways_on_have_values),
    Code("unemitted-event", _W, "A loop routes an event that no role emits.", roles.handled_events_come, loop=True),
    Code("unhandled-action", _W, "The orchestrator's list of actions lacks one that is in the flow.",
         operation.handled_actions_are_there),
    Code("unknown-agent", _E, "A node is not declared.", names.declared_in_flow),
    Code("unknown-artifact", _W, "An artifact is not declared.",
         knowledge.artifacts_are_declared),
    Code("unknown-config", _E, "A setting of a pattern is unknown.", patterns.pattern_fits, pattern=True),
    Code("unknown-output", _E, "An output in a condition is not declared by its agent.",
         arrows.conditions_read_outputs),
    Code("unknown-pattern", _W, "A pattern in the header is probably misspelt.",
         operation.patterns_are_spelt_right),
    Code("unknown-retrieval", _W, "A retrieval is not declared.",
         knowledge.stores_are_declared),
    Code("unknown-plugin", _E, "A plugin is neither built in nor installed.",
         systems.plugins_are_known, system=True),
    Code("unknown-role", _W, "An agent's role is not described.", names.declared_roles),
    Code("unknown-schema", _W, "A type is neither simple nor a declared schema.",
         knowledge.schemas_are_declared),
    Code("unknown-scope", _E, "The scope in `per` is not declared.", names.declared_scopes),
    Code("unknown-secret-store", _W, "A secret names an unknown secret store.", reach.variables_are_sealed),
    Code("unknown-server", _E, "An agent's MCP server is not declared.", reach.servers_are_declared),
    Code("unknown-skill", _W, "A skill is not declared.", knowledge.skills_are_declared),
    Code("unknown-slot", _E, "A slot of a pattern is unknown.", patterns.pattern_fits, pattern=True),
    Code("unknown-store", _W, "A store is not declared.", knowledge.stores_are_declared),
    Code("unknown-target", _W, "An agent that is named is not in the tree, but may be spawned.",
         systems.routes_lead_to_agents, system=True),
    Code("unknown-tool", _W, "A skill's tool is not declared.", knowledge.skills_are_declared),
    Code("unknown-type", _E, "The type of a pattern is unknown.", patterns.type_is_known, pattern=True),
    Code("unknown-value", _E, "A condition compares an output with an impossible value.",
         arrows.conditions_read_outputs),
    Code("unprovided-model", _W, "No provider lists an agent's model.", conduct.models_are_provided),
    Code("unreachable-node", _W, "A node is not reachable from the start of the flow.", shape.everything_is_reached),
    Code("unused-agent", _W, "A node is declared but not in the flow.", names.used),
    Code("weights-not-one", _W, "Weights do not add up to 1.",
         conduct.arrows_share_all),
)
# fmt: on
"""In alphabetical order."""
