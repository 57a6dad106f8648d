"""The blocks that say how a team is started, watched and kept."""

from coterie.formats.at.language.conduct import HOOK, SAMPLING
from coterie.formats.at.language.spec import (
    Block,
    Count,
    Duration,
    Entries,
    Field,
    Flag,
    Inner,
    Number,
    OneOf,
    Text,
    Word,
    Words,
)

META = Block(
    "meta",
    "What the topology says of itself.",
    (
        Field("version", Text(), "Its version.", executed=True),
        Field("description", Text(), "What it is for, in a sentence.", executed=True),
        Field("domain", Word(), "Its field of work.", executed=True),
        Field("foundations", Words(), "The patterns that it builds on.", executed=True),
        Field("advanced", Words(), "The patterns that it adds.", executed=True),
        Field("timeout", Duration(), "How long the whole may take."),
        Field("error-handler", Word(), "The node that hears of every failure."),
        Field("durable", Flag(), "Whether a run can be taken up again; every run of coterie can."),
    ),
    open=True,
    executed=True,
    example='meta { version: "1.0.0"  description: "Reviews pull requests" }',
)

ROLES = Block(
    "roles",
    "Texts that agents are told, by the name of their role.",
    open=True,
    executed=True,
    example='roles { critic: "You doubt everything" }',
)

DEFAULTS = Block(
    "defaults",
    "What holds for every agent that says nothing else.",
    (
        *SAMPLING,
        Field("timeout", Duration(), "How long one attempt may take.", executed=True),
    ),
    executed=True,
    example="defaults { temperature: 0.2  timeout: 10m }",
)

HOOKS = Block(
    "hooks",
    "Commands that are run when something happens.",
    entries=(Entries("hook", HOOK),),
    example='hooks { hook log { on: AgentStop  run: "log.sh" } }',
)

TRIGGERS = Block(
    "triggers",
    "Commands that start the team.",
    entries=(
        Entries(
            "command",
            Block(
                "command",
                "A command that starts the team.",
                (
                    Field("pattern", Text(), "How it is written."),
                    Field("argument", Text(), "The variable that its argument fills."),
                    Field("description", Text(), "What it does."),
                ),
            ),
        ),
    ),
    example='triggers { command review { pattern: "/review <PR>"  argument: PR } }',
)

SCHEDULE = Block(
    "schedule",
    "What is done again and again.",
    entries=(
        Entries(
            "job",
            Block(
                "job",
                "Something that is done again and again.",
                (
                    Field("cron", Text(), "When, in the five fields of cron."),
                    Field("every", Text(), "When, in words: daily, monday 9:00."),
                    Field("agent", Word(), "The agent that does it."),
                    Field("action", Word(), "Or the action."),
                    Field("enabled", Flag(), "Whether it is done.", "true"),
                ),
            ),
        ),
    ),
    example='schedule { job nightly { cron: "0 3 * * *"  agent: sweeper } }',
)

INTERFACES = Block(
    "interfaces",
    "The ways in and out: webhooks, channels, mail.",
    entries=(
        Entries(
            "",
            Block(
                "interface",
                "A way in or out.",
                (Field("type", Word(), "What it is: webhook, http, email, …"),),
                open=True,
            ),
        ),
    ),
    example='interfaces { chat { type: webhook  webhook: "${CHAT_WEBHOOK}" } }',
)

DEPTH = Block(
    "depth",
    "How much of the team works, by how hard the task is.",
    (Field("factors", Words(), "What makes a task hard."),),
    (
        Entries(
            "level",
            Block(
                "level",
                "One depth of work.",
                (Field("omit", Words(names=True), "The nodes that do not run."),),
            ),
            labelled=True,
        ),
    ),
    example='depth { factors: [size]  level 1 "quick" { omit: [researcher] } }',
)

BATCH = Block(
    "batch",
    "How several tasks are worked on.",
    (
        Field("parallel", Flag(), "Whether at once.", "false"),
        Field("per", Word(), "What one task is."),
        Field(
            "conflicts",
            Inner(
                Block(
                    "conflicts",
                    "Where tasks may meet, and what then.",
                    (
                        Field("detect", Words(), "The files to be watched."),
                        Field("resolve", OneOf(("sequential-rebase",)), "How a conflict is resolved."),
                    ),
                )
            ),
            "Where tasks may meet, and what then.",
        ),
        Field("workspace", Text(), "The folder of the batch."),
    ),
    example="batch { parallel: true  per: ticket }",
)

METERING = Block(
    "metering",
    "What is counted, and where it is written.",
    (
        Field("track", Words(), "What is counted: tokens-in, tokens-out, cost, wall-time, agent-count."),
        Field("per", Words(), "By what it is summed: run, phase, agent."),
        Field("output", Text(), "Where it is written.", "metrics/"),
        Field("format", OneOf(("json", "jsonl", "csv")), "How it is written.", "jsonl"),
        Field("pricing", OneOf(("anthropic-current", "custom", "none"), open=True), "What tokens cost."),
    ),
    example="metering { track: [cost]  per: [agent] }",
)

CAPTURE = Block(
    "capture",
    "What telemetry may hold.",
    (
        Field("prompts", Flag(), "The questions.", "false"),
        Field("completions", Flag(), "The answers.", "false"),
        Field("tool-args", Flag(), "What tools are given.", "false"),
        Field("tool-results", Flag(), "What they give back.", "false"),
    ),
)
SPANS = Block(
    "spans",
    "What telemetry has spans for.",
    (
        Field("agents", Flag(), "Turns of agents.", "true"),
        Field("tools", Flag(), "Calls of tools.", "true"),
        Field("gates", Flag(), "Gates.", "true"),
        Field("memory", Flag(), "Memory.", "false"),
    ),
)
OBSERVABILITY = Block(
    "observability",
    "Where telemetry goes.",
    (
        Field("enabled", Flag(), "Whether there is any.", "true"),
        Field("level", OneOf(("debug", "info", "warn", "error")), "How much.", "info"),
        Field("exporter", OneOf(("otlp", "langsmith", "datadog", "stdout", "none")), "By which means."),
        Field("endpoint", Text(), "Where to."),
        Field("service", Text(), "Under which name."),
        Field("sample-rate", Number(low=0, high=1), "Which share of runs.", "1"),
        Field("capture", Inner(CAPTURE), CAPTURE.about),
        Field("spans", Inner(SPANS), SPANS.about),
    ),
    example="observability { exporter: otlp }",
)

CHECKPOINT = Block(
    "checkpoint",
    "Where the state of a run is written; coterie's journal does that by itself.",
    (
        Field("backend", OneOf(("memory", "sqlite", "postgres", "redis", "s3", "custom")), "What keeps it."),
        Field("connection", Text(), "Its address."),
        Field("strategy", OneOf(("every-node", "on-error", "explicit", "none")), "When it is written."),
        Field("ttl", Duration(), "How long it is kept."),
        Field(
            "replay",
            Inner(
                Block(
                    "replay",
                    "Whether earlier states can be gone back to.",
                    (
                        Field("enabled", Flag(), "Whether they can.", "false"),
                        Field("max-history", Count(low=1), "How many are kept."),
                        Field("branch", Flag(), "Whether a run may branch off there.", "false"),
                    ),
                )
            ),
            "Whether earlier states can be gone back to.",
        ),
    ),
    example="checkpoint { backend: sqlite  strategy: every-node }",
)
