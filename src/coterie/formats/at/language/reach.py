"""The blocks that say what agents work with: tools, servers, skills, providers, settings."""

from coterie.formats.at.language.conduct import SANDBOXES
from coterie.formats.at.language.spec import (
    Block,
    Entries,
    Field,
    Flag,
    Inner,
    OneOf,
    Text,
    Values,
    Word,
    Words,
)

TOOL = Block(
    "tool",
    "A script that agents may call by name.",
    (
        Field("script", Text(), "Its file."),
        Field("args", Words(), "The names of its arguments."),
        Field("description", Text(), "What it does, for whoever thinks."),
        Field("lang", OneOf(("bash", "python", "node", "auto")), "Its language.", "auto"),
    ),
)
TOOLS = Block(
    "tools",
    "Scripts that agents may call by name.",
    entries=(Entries("tool", TOOL),),
    example='tools { tool run-tests { script: "run-tests.sh"  args: [folder] } }',
)

SERVER = Block(
    "server",
    "A server of tools.",
    (
        Field("type", OneOf(("http", "stdio", "sse")), "How it is spoken to.", executed=True, model_only=True),
        Field("url", Text(), "Where it listens.", executed=True, model_only=True),
        Field("command", Text(), "The program that is started.", executed=True, model_only=True),
        Field("args", Words(), "Its arguments.", executed=True, model_only=True),
        Field("env", Values(), "Its further environment variables.", executed=True, model_only=True),
    ),
)
MCP_SERVERS = Block(
    "mcp-servers",
    "Servers of tools that speak the Model Context Protocol; agents name those they use.",
    entries=(Entries("", SERVER),),
    executed=True,
    example='mcp-servers { files { type: stdio  command: "files-server"  args: ["."] } }',
)

SKILL = Block(
    "skill",
    "Scripts, knowledge and instructions under one name.",
    (
        Field("description", Text(), "What it is good for."),
        Field("scripts", Words(names=True), "The tools that it brings."),
        Field("domains", Words(), "Files of knowledge."),
        Field("references", Words(), "Documents."),
        Field("prompt", Text(), "The file of its instructions."),
        Field("disable-model-invocation", Flag(), "Whether no model takes it up by itself.", "false"),
        Field("user-invocable", Flag(), "Whether people may call for it.", "false"),
        Field("context", Word(), "'fork' gives it a context of its own."),
        Field("agent", Word(), "Who works in that."),
        Field("allowed-tools", Words(), "Tools that need no permission in it."),
        Field("extensions", Values(), "What other systems know of it."),
    ),
    named=True,
    example="skill extraction { scripts: [extract-pdf] }",
)

AUTH = Block(
    "auth",
    "How the provider knows who asks.",
    (
        Field("type", OneOf(("oidc", "oauth2", "api-key", "aws-iam", "gcp-sa", "azure-msi")), "By which means."),
        Field("issuer", Text(), "Who issues tokens."),
        Field("audience", Text(), "For whom they are."),
        Field("token-url", Text(), "Where they are had."),
        Field("client-id", Text(), "Who asks for them."),
        Field("scopes", Words(), "What they allow."),
    ),
)
PROVIDER = Block(
    "provider",
    "Who serves models.",
    (
        Field("api-key", Text(), "An environment variable: ${NAME}.", executed=True, model_only=True),
        Field("base-url", Text(), "Where it listens.", executed=True, model_only=True),
        Field("models", Words(), "The models that it serves.", executed=True, model_only=True),
        Field("default", Flag(), "Whether it comes first.", "false", executed=True, model_only=True),
        Field("auth", Inner(AUTH), AUTH.about),
    ),
    open=True,
)
PROVIDERS = Block(
    "providers",
    "Who serves models, and how they are reached.",
    entries=(Entries("", PROVIDER),),
    executed=True,
    example='providers { anthropic { api-key: "${ANTHROPIC_API_KEY}"  models: [opus, sonnet] } }',
)

SETTINGS = Block(
    "settings",
    "What tools may do unasked, never, or after asking.",
    (
        Field("allow", Words(), "What is allowed."),
        Field("deny", Words(), "What is forbidden."),
        Field("ask", Words(), "What is asked about."),
        Field("sandbox", OneOf(SANDBOXES, open=True), "Where the tools of all agents are shut in."),
        Field("fallback-chain", Words(names=True), "The models to be asked when an agent's own is not there."),
    ),
    example='settings { deny: ["Bash(rm *)"] }',
)
