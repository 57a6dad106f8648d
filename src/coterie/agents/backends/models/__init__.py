"""Call models of Anthropic, of OpenAI, and of any compatible server.

`backend` is the backend with its attempts; `needs` checks the requirements before a run. The other modules load with
the first call of a model, since that takes a second: `conversation` (one attempt with a model, over pydantic-ai),
`anthropic` and `openai` (one provider each), `outputs`, `functions` (Python tools), `servers` (MCP), `usage`,
`failures`. `cassette` records answers of providers, from which `redaction` removes secrets, and replays them through
`transport`.
"""
