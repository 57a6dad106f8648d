"""The blocks that declare nodes: what agents, actions, gates, humans and groups may say."""

from coterie.formats.at.language import conduct
from coterie.formats.at.language.conduct import CONDUCT, SAMPLING
from coterie.formats.at.language.spec import (
    Block,
    Count,
    Duration,
    Field,
    Join,
    Number,
    OneOf,
    Own,
    Policy,
    Text,
    Word,
    Words,
)

ON_FAIL = Policy(("halt", "skip", "continue"), also="retry")

DESCRIPTION = Field("description", Text(), "What it is for, in a sentence.", executed=True)
TIMEOUT = Field("timeout", Duration(), "How long one attempt may take.", executed=True)
PHASE = Field("phase", Number(), "Where it stands, for 'per phase'.", executed=True)
OUTPUTS = Field(
    "outputs",
    Own(words="a block: { name: a | b }; text, number, integer, boolean, any"),
    "The values that it gives back, for conditions.",
    executed=True,
)
EXTENSIONS = Field(
    "extensions",
    Own(words="a block: { coterie { … } }"),
    "Who thinks, and what other systems know of it.",
    executed=True,
)
RETRY = Field(
    "retry",
    Own(words="a whole number, or a block", block=conduct.RETRY),
    "How often it is asked again after a failure.",
    "0",
    executed=True,
)
FAIL = Field("on-fail", ON_FAIL, "What follows when it fails for good.", "halt", executed=True)
JOIN = Field("join", Join(), "How many of the arrows into it must have come.", "all that are coming")

EXTRA = (*SAMPLING, *CONDUCT)
"""What an agent says that only a model acts on, or nothing yet."""

AGENT = Block(
    "agent",
    "Somebody who thinks: a model, a program, a person, or a whole topology.",
    (
        Field("model", Word(), "The model's name.", executed=True),
        Field("prompt", Own(words="a text, a path, or { any text }"), "What it is told.", executed=True),
        Field("role", Word(), "The role whose text it is told.", executed=True),
        Field("tools", Words(), "The tools that it may use.", "all", executed=True),
        Field("reads", Words(), "Agents or files whose content joins its question.", executed=True),
        Field("writes", Words(), "What it leaves behind.", "nothing"),
        OUTPUTS,
        TIMEOUT,
        RETRY,
        FAIL,
        PHASE,
        Field(
            "invocation",
            OneOf(("auto", "manual")),
            "Whether the flow leads to it, or somebody calls for it.",
            "auto",
            executed=True,
        ),
        DESCRIPTION,
        EXTENSIONS,
        *EXTRA,
    ),
    named=True,
    executed=True,
    example="agent writer { model: sonnet  outputs { verdict: approve | revise } }",
)

ORCHESTRATOR = Block(
    "orchestrator",
    "The agent that coordinates; the flow names it 'orchestrator'.",
    (
        Field("model", Word(), "The model's name.", executed=True),
        Field("generates", Text(), "The file that other systems make of it."),
        Field("handles", Words(names=True), "The actions that it does itself."),
        Field("delegation", OneOf(("subagent", "inline")), "How it gives work to agents.", "subagent"),
        OUTPUTS,
        TIMEOUT,
        RETRY,
        FAIL,
        PHASE,
        DESCRIPTION,
        EXTENSIONS,
    ),
    executed=True,
    example="orchestrator { model: opus  handles: [intake] }",
)

ACTION = Block(
    "action",
    "A step that runs commands and thinks nothing.",
    (
        Field(
            "kind",
            OneOf(("external", "git", "decision", "inline", "report")),
            "What sort of step it is.",
            executed=True,
        ),
        Field("commands", Words(), "What is run, one after the other; no shell reads it.", executed=True),
        Field(
            "lang", OneOf(("bash", "python", "node", "auto")), "The language of its commands.", "auto", executed=True
        ),
        Field("source", Text(), "Where its input comes from."),
        OUTPUTS,
        TIMEOUT,
        RETRY,
        FAIL,
        PHASE,
        JOIN,
        DESCRIPTION,
        EXTENSIONS,
    ),
    named=True,
    executed=True,
    example='action fetch { kind: git  commands: ["git fetch"] }',
)

GATE = Block(
    "gate",
    "A check on an arrow: it lets the flow through, stops it, or sends it back.",
    (
        Field("after", Word(), "The node that it stands behind.", executed=True),
        Field("before", Word(), "The node that it stands before.", executed=True),
        Field("run", Text(), "The command that decides.", executed=True),
        Field("checks", Words(), "The names of what it checks."),
        Field("retry", RETRY.kind, "How often it sends the work back.", "0", executed=True),
        Field("on-fail", OneOf(("halt", "bounce-back")), "What follows when it does not pass.", "halt", executed=True),
        Field(
            "behavior", OneOf(("blocking", "advisory")), "Whether it can hold up the flow.", "blocking", executed=True
        ),
        TIMEOUT,
        DESCRIPTION,
        EXTENSIONS,
    ),
    named=True,
    executed=True,
    example='gate tests { after: writer  before: reviewer  run: "pytest -q" }',
)

GATES = Block("gates", "The checks on arrows.", executed=True, example="gates { gate NAME { … } }")

HUMAN = Block(
    "human",
    "A person who is asked.",
    (
        Field("description", Text(), "What the person is asked.", executed=True),
        Field("timeout", Duration(), "How long an answer is waited for.", executed=True),
        Field("on-timeout", Policy(("halt", "skip")), "What follows when nobody answers.", "halt", executed=True),
        OUTPUTS,
        PHASE,
        EXTENSIONS,
    ),
    named=True,
    executed=True,
    example='human editor { description: "Shall it be published?"  timeout: 1d }',
)

GROUP = Block(
    "group",
    "A conversation of several agents; a flow that leads through one cannot be run yet.",
    (
        Field("members", Words(names=True), "Who takes part."),
        Field("speaker-selection", OneOf(("auto", "round-robin", "random", "manual")), "Who speaks next.", "auto"),
        Field("max-rounds", Count(low=1), "After how many rounds it ends."),
        Field("termination", Text(), "When it ends, in words."),
        Field("description", Text(), "What it is for, in a sentence.", executed=True),
        Field("timeout", Duration(), "How long it may take."),
        Field("phase", Number(), "Where it stands, for 'per phase'."),
        EXTENSIONS,
    ),
    named=True,
    example="group panel { members: [optimist, sceptic]  max-rounds: 3 }",
)
