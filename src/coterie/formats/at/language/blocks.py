"""The blocks of a topology in their order, the most frequent first."""

from coterie.formats.at.language.nodes import ACTION, AGENT, GATE, GATES, GROUP, HOOK, HUMAN, ORCHESTRATOR
from coterie.formats.at.language.spec import (
    DURATION,
    FLAG,
    LIST,
    NAMES,
    TEXT,
    VALUES,
    WORD,
    BlockSpec,
    Entries,
    FieldKind,
    count,
    inner,
    kept,
    model,
    number,
    one_of,
    own,
    works,
)

# fmt: off
# A table: a line for each field.
LANGUAGE: tuple[BlockSpec, ...] = (
    BlockSpec("meta", "Describes the topology.", open=True, executed=True, example='meta { version: "1.0.0"  description: "Reviews pull requests" }', fields=(
        works("version", TEXT, "Version of the topology."),
        works("description", TEXT, "Purpose, in one sentence."),
        works("domain", WORD, "Field of work."),
        works("foundations", LIST, "Patterns that it builds on."),
        works("advanced", LIST, "Patterns that it adds."),
        kept("timeout", DURATION, "Time limit of a whole run."),
        kept("error-handler", WORD, "Node that is notified of every failure."),
        kept("durable", FLAG, "Whether a run can be resumed; every run of coterie can."),
    )),
    BlockSpec("roles", "Texts that are added to the prompts of agents, by role.", open=True, executed=True, example='roles { critic: "You doubt everything" }'),
    AGENT,
    ORCHESTRATOR,
    ACTION,
    HUMAN,
    GATES,
    GATE,
    GROUP,
    BlockSpec("flow", "The order in which the nodes run.", executed=True, example="flow { writer -> reviewer }"),
    BlockSpec("pattern", "A named collaboration that decides which agent runs next, instead of a flow.", executed=True, example="pattern { type: debate  slots { proponent: ada  opponent: bob  mediator: eve } }", fields=(
        works("type", own('debate | chain | delegation | ensemble | pipeline | crosscheck | compound | "module:function"'), "Type of the pattern."),
        works("config", VALUES, "Its settings.", "those of its type"),
        works("slots", FieldKind("values", "a block: { name: AGENT }, or { name { agent: …  capabilities: […]  calls: …  cost: … } }"), "Agents of the pattern, by slot."),
    )),
    BlockSpec("import", "Another topology as a node of this one.", executed=True, example='import "./review.at" as review with { rounds: 2 }'),
    BlockSpec("include", "Declarations and flow of a fragment, inserted here.", executed=True, example='include "./reviewers.at"'),
    BlockSpec("params", "Parameters of the topology, set by importing topologies: NAME: TYPE = DEFAULT.", open=True, executed=True, example="params { tone: string = dry  rounds: number }"),
    BlockSpec("interface", "First and last node of the topology, for importing topologies.", executed=True, example="interface { entry: writer  exit: editor }", fields=(
        works("entry", WORD, "First node.", "the first nodes of the flow"),
        works("exit", WORD, "Node whose result is that of the whole topology.", "all last nodes"),
    )),
    BlockSpec("defaults", "Default values for all agents.", executed=True, example="defaults { temperature: 0.2  timeout: 10m }", fields=(
        *AGENT.pick("temperature", "max-tokens", "top-p", "top-k", "stop", "seed", "thinking", "thinking-budget", "output-format", "log-level", "timeout"),
    )),
    BlockSpec("mcp-servers", "Servers of tools that speak the Model Context Protocol; agents name those they use.", executed=True, example='mcp-servers { files { type: stdio  command: "files-server"  args: ["."] } }', entries=(
        Entries("", BlockSpec("server", "A server of tools.", fields=(
            model("type", one_of("http", "stdio", "sse"), "Transport."),
            model("url", TEXT, "URL of the server."),
            model("command", TEXT, "Program to start."),
            model("args", LIST, "Its arguments."),
            model("env", VALUES, "Additional environment variables."),
        ))),
    )),
    BlockSpec("tools", "Scripts that agents can call by name.", example='tools { tool run-tests { script: "run-tests.sh"  args: [folder] } }', entries=(
        Entries("tool", BlockSpec("tool", "A script that agents can call by name.", fields=(
            kept("script", TEXT, "File of the script."),
            kept("args", LIST, "Names of its arguments."),
            kept("description", TEXT, "What it does, for the model."),
            kept("lang", one_of("bash", "python", "node", "auto"), "Language of the script.", "auto"),
        ))),
    )),
    BlockSpec("skill", "Scripts, knowledge and instructions under one name.", named=True, example="skill extraction { scripts: [extract-pdf] }", fields=(
        kept("description", TEXT, "When to use it."),
        kept("scripts", NAMES, "Tools that it provides."),
        kept("domains", LIST, "Files of knowledge."),
        kept("references", LIST, "Reference documents."),
        kept("prompt", TEXT, "File of its instructions."),
        kept("disable-model-invocation", FLAG, "Whether models may not invoke it.", "false"),
        kept("user-invocable", FLAG, "Whether users may invoke it.", "false"),
        kept("context", WORD, "'fork' runs it in a separate context."),
        kept("agent", WORD, "Agent that works in that context."),
        kept("allowed-tools", LIST, "Tools that need no approval in it."),
        kept("extensions", VALUES, "Data of other systems."),
    )),
    BlockSpec("providers", "Model providers, and how to reach them.", executed=True, example='providers { anthropic { api-key: "${ANTHROPIC_API_KEY}"  models: [opus, sonnet] } }', entries=(
        Entries("", BlockSpec("provider", "A model provider.", open=True, fields=(
            model("api-key", TEXT, "An environment variable: ${NAME}."),
            model("base-url", TEXT, "URL of its API."),
            model("models", LIST, "Models that it serves."),
            model("default", FLAG, "Whether it is used first.", "false"),
            kept("auth", inner(BlockSpec("auth", "How requests are authenticated.", fields=(
                kept("type", one_of("oidc", "oauth2", "api-key", "aws-iam", "gcp-sa", "azure-msi"), "Method."),
                kept("issuer", TEXT, "Issuer of tokens."),
                kept("audience", TEXT, "Audience of tokens."),
                kept("token-url", TEXT, "URL that issues tokens."),
                kept("client-id", TEXT, "Client that requests them."),
                kept("scopes", LIST, "Requested scopes."),
            ))), "How requests are authenticated."),
        ))),
    )),
    BlockSpec("settings", "Tool calls that are allowed, forbidden, or need approval.", executed=True, example='settings { deny: ["Bash(rm *)"] }', fields=(
        model("allow", LIST, "Calls that need no approval."),
        model("deny", LIST, "Forbidden calls."),
        model("ask", LIST, "Calls that need approval."),
        kept("sandbox", one_of("true", "false", "docker", "none", "network-only", open=True), "Where the tools of all agents are confined."),
        kept("fallback-chain", NAMES, "Models to use when an agent's own is unavailable."),
    )),
    BlockSpec("env", "Environment variables: NAME: value, or secret, sensitive or encrypted before the value.", open=True, executed=True, example='env { MODE: fast  API_KEY: secret "vault://team/key" }'),
    BlockSpec("environments", "Environments of the team, each with its values.", example='environments { staging { url: "staging.example.com" } }', entries=(
        Entries("", BlockSpec("environment", "An environment of the team.", open=True)),
    )),
    BlockSpec("schemas", "Schemas of values, by name.", example="schemas { schema finding { title: string  notes?: array of string } }", entries=(
        Entries("schema", BlockSpec("schema", "The schema of a value: string, number, integer, boolean, object, a | b, array of TYPE, a schema.", open=True)),
    )),
    BlockSpec("artifacts", "Artifacts that agents produce and consume.", example='artifacts { artifact report { type: markdown  path: "report.md" } }', entries=(
        Entries("artifact", BlockSpec("artifact", "An artifact that agents produce and consume.", fields=(
            kept("type", WORD, "Format: markdown, json, …"),
            kept("path", TEXT, "Path of the file."),
            kept("retention", FieldKind("text", "a duration"), "How long it is kept."),
            kept("depends-on", NAMES, "Artifacts that it is made from."),
        )), bare=True),
    )),
    BlockSpec("context", "The file of instructions for every agent.", example='context { file: "TEAM.md" }', fields=(
        kept("file", TEXT, "Name of the file."),
        kept("includes", LIST, "Additional files."),
    )),
    BlockSpec("memory", "The memory of the team.", example="memory { store notes { type: semantic  backend: sqlite-vec } }", fields=(
        kept("domains", inner(BlockSpec("domains", "Shared knowledge.", fields=(
            kept("path", TEXT, "Folder."),
            kept("routing", TEXT, "File that maps topics to files."),
            kept("index", TEXT, "File that lists the files."),
        )), short="path"), "Shared knowledge."),
        kept("references", inner(BlockSpec("references", "Documents that do not change.", fields=(
            kept("path", TEXT, "Folder."),
            kept("blueprints", LIST, "Their names."),
        )), short="path"), "Documents that do not change."),
        kept("external-docs", inner(BlockSpec("external-docs", "Documents that are loaded on demand.", fields=(
            kept("path", TEXT, "Folder."),
            kept("files", LIST, "Their names."),
            kept("load-when", TEXT, "File that defines when they are loaded."),
        )), short="path"), "Documents that are loaded on demand."),
        kept("metrics", inner(BlockSpec("metrics", "A log of the work.", fields=(
            kept("path", TEXT, "File."),
            kept("mode", one_of("append-only", open=True), "How it is written."),
        )), short="path"), "A log of the work."),
        kept("workspace", inner(BlockSpec("workspace", "The folder of one run.", fields=(
            kept("path", TEXT, "Folder."),
            kept("protocol", TEXT, "File that describes its use."),
            kept("structure", LIST, "Folders in it."),
        )), short="path"), "The folder of one run."),
    ), entries=(
        Entries("store", BlockSpec("store", "A memory store.", fields=(
            kept("type", one_of("semantic", "episodic", "procedural", "entity", "graph", "user", "session", "temporal"), "Kind of memory."),
            kept("description", TEXT, "Content."),
            kept("scope", one_of("agent", "user", "session", "org", "global", open=True), "Who shares it."),
            kept("isolation", one_of("strict", "soft", "none"), "How strictly scopes are separated."),
            kept("backend", one_of("lancedb", "sqlite-vec", "chroma", "kuzu", "falkordb", "mongodb", "pinecone", "qdrant", "pgvector", "neo4j", "sqlite", "duckdb"), "Database that holds it."),
            kept("path", TEXT, "Path of its files."),
            kept("connection", TEXT, "Address of its server."),
            kept("extraction", one_of("llm", "regex", "hybrid"), "How facts are extracted from texts."),
            kept("embedding", inner(BlockSpec("embedding", "How vectors are computed.", fields=(
                kept("provider", WORD, "Provider of the model."),
                kept("model", TEXT, "Name of the model."),
                kept("dimensions", count(1), "Number of dimensions."),
                kept("endpoint", TEXT, "URL of the model."),
            ))), "How vectors are computed."),
            kept("index", inner(BlockSpec("index", "Where vectors are stored.", fields=(
                kept("collection", TEXT, "Name of the collection."),
                kept("metric", WORD, "How vectors are compared."),
            ))), "Where vectors are stored."),
            kept("ingestion", inner(BlockSpec("ingestion", "Documents that are read into the store.", fields=(
                kept("sources", LIST, "Folders and files."),
                kept("chunking", WORD, "How they are split."),
                kept("chunk-size", count(1), "Length of a chunk."),
                kept("overlap", count(0), "Overlap of chunks."),
            ))), "Documents that are read into the store."),
            kept("search", inner(BlockSpec("search", "How the store is searched.", fields=(
                kept("strategy", WORD, "By words, by vectors, or both."),
                kept("rerank", FLAG, "Whether results are ranked again.", "false"),
                kept("top-k", count(1), "Number of results."),
            ))), "How the store is searched."),
            kept("lifecycle", inner(BlockSpec("lifecycle", "How long memories are kept.", fields=(
                kept("retention", FieldKind("text", "a duration"), "How long."),
                kept("decay-half-life", FieldKind("text", "a duration"), "Half-life of a memory's weight."),
                kept("consolidation", number(0, 1), "Similarity from which memories are merged."),
                kept("contradiction", WORD, "How contradictory memories are resolved."),
                kept("audit-log", FLAG, "Whether every change is logged.", "false"),
            ))), "How long memories are kept."),
            kept("backend-config", VALUES, "Options of its backend."),
        ))),
        Entries("retrieval", BlockSpec("retrieval", "How agents search the memory.", fields=(
            kept("sources", NAMES, "Stores to search."),
            kept("budget", count(1), "Maximum number of tokens of the results."),
            kept("paths", LIST, "Search paths."),
            kept("rerank", FLAG, "Whether results are ranked again.", "false"),
            kept("diversity", FLAG, "Whether similar results are merged.", "false"),
            kept("cache-hit-threshold", number(0, 1), "Similarity from which an earlier query counts as the same."),
            kept("cache-hit-action", one_of("short-circuit", "augment", "pass-through"), "How an earlier answer is used."),
            kept("scoring", VALUES, "Weights of the scores."),
        ))),
    )),
    BlockSpec("hooks", "Commands that run on events.", example='hooks { hook log { on: AgentStop  run: "log.sh" } }', entries=(
        HOOK,
    )),
    BlockSpec("triggers", "Commands that start the team.", example='triggers { command review { pattern: "/review <PR>"  argument: PR } }', entries=(
        Entries("command", BlockSpec("command", "A command that starts the team.", fields=(
            kept("pattern", TEXT, "Form of the command."),
            kept("argument", TEXT, "Variable that its argument fills."),
            kept("description", TEXT, "What it does."),
        ))),
    )),
    BlockSpec("schedule", "Recurring work.", example='schedule { job nightly { cron: "0 3 * * *"  agent: sweeper } }', entries=(
        Entries("job", BlockSpec("job", "A recurring job.", fields=(
            kept("cron", TEXT, "When, in the five fields of cron."),
            kept("every", TEXT, "When, in words: daily, monday 9:00."),
            kept("agent", WORD, "Agent to run."),
            kept("action", WORD, "Or the action to run."),
            kept("enabled", FLAG, "Whether it is active.", "true"),
        ))),
    )),
    BlockSpec("interfaces", "Inputs and outputs: webhooks, channels, mail.", example='interfaces { chat { type: webhook  webhook: "${CHAT_WEBHOOK}" } }', entries=(
        Entries("", BlockSpec("interface", "An input or output.", open=True, fields=(
            kept("type", WORD, "Its type: webhook, http, email, …"),
        ))),
    )),
    BlockSpec("depth", "How much of the team works, by the difficulty of the task.", example='depth { factors: [size]  level 1 "quick" { omit: [researcher] } }', fields=(
        kept("factors", LIST, "What makes a task difficult."),
    ), entries=(
        Entries("level", BlockSpec("level", "A level of difficulty.", fields=(
            kept("omit", NAMES, "Nodes that do not run."),
        )), labelled=True),
    )),
    BlockSpec("batch", "How several tasks are processed.", example="batch { parallel: true  per: ticket }", fields=(
        kept("parallel", FLAG, "Whether in parallel.", "false"),
        kept("per", WORD, "The unit of work."),
        kept("conflicts", inner(BlockSpec("conflicts", "Where tasks may conflict, and what to do then.", fields=(
            kept("detect", LIST, "Files to watch."),
            kept("resolve", one_of("sequential-rebase"), "How a conflict is resolved."),
        ))), "Where tasks may conflict, and what to do then."),
        kept("workspace", TEXT, "Folder of the batch."),
    )),
    BlockSpec("metering", "What is measured, and where it is written.", example="metering { track: [cost]  per: [agent] }", fields=(
        kept("track", LIST, "What is measured: tokens-in, tokens-out, cost, wall-time, agent-count."),
        kept("per", LIST, "How it is summed: run, phase, agent."),
        kept("output", TEXT, "Folder of the results.", "metrics/"),
        kept("format", one_of("json", "jsonl", "csv"), "Format of the results.", "jsonl"),
        kept("pricing", one_of("anthropic-current", "custom", "none", open=True), "Prices of tokens."),
    )),
    BlockSpec("observability", "Where telemetry is sent.", example="observability { exporter: otlp }", fields=(
        kept("enabled", FLAG, "Whether telemetry is sent.", "true"),
        kept("level", one_of("debug", "info", "warn", "error"), "Level of detail.", "info"),
        kept("exporter", one_of("otlp", "langsmith", "datadog", "stdout", "none"), "Exporter."),
        kept("endpoint", TEXT, "URL of the collector."),
        kept("service", TEXT, "Name of the service."),
        kept("sample-rate", number(0, 1), "Share of runs that are sent.", "1"),
        kept("capture", inner(BlockSpec("capture", "What telemetry may contain.", fields=(
            kept("prompts", FLAG, "Prompts.", "false"),
            kept("completions", FLAG, "Answers.", "false"),
            kept("tool-args", FLAG, "Arguments of tool calls.", "false"),
            kept("tool-results", FLAG, "Results of tool calls.", "false"),
        ))), "What telemetry may contain."),
        kept("spans", inner(BlockSpec("spans", "What has spans in telemetry.", fields=(
            kept("agents", FLAG, "Turns of agents.", "true"),
            kept("tools", FLAG, "Tool calls.", "true"),
            kept("gates", FLAG, "Gates.", "true"),
            kept("memory", FLAG, "Memory.", "false"),
        ))), "What has spans in telemetry."),
    )),
    BlockSpec("checkpoint", "Where the state of a run is written; coterie's journal already does this.", example="checkpoint { backend: sqlite  strategy: every-node }", fields=(
        kept("backend", one_of("memory", "sqlite", "postgres", "redis", "s3", "custom"), "Database that holds it."),
        kept("connection", TEXT, "Address of the database."),
        kept("strategy", one_of("every-node", "on-error", "explicit", "none"), "When it is written."),
        kept("ttl", DURATION, "How long it is kept."),
        kept("replay", inner(BlockSpec("replay", "Whether a run can go back to earlier states.", fields=(
            kept("enabled", FLAG, "Whether it can.", "false"),
            kept("max-history", count(1), "Number of states that are kept."),
            kept("branch", FLAG, "Whether a run can branch off there.", "false"),
        ))), "Whether a run can go back to earlier states."),
    )),
    BlockSpec("extensions", "The default backend, and data of other systems.", open=True, executed=True, example="extensions { coterie { backend: command } }"),
)
