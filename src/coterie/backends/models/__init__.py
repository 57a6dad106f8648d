"""Call models: Anthropic's, OpenAI's, and any server that is compatible with one of them.

`backend` is the backend and its attempts; `needs` checks before a run that all is there. The others load with the first
call of a model, since that takes a second: `conversation` (one attempt with a model, over pydantic-ai), `anthropic` and
`openai` (one provider each), `outputs`, `functions` (Python tools), `servers` (MCP), `usage`, `failures`. `cassette`
records answers of providers, which `redaction` strips of secrets, and replays them through `transport`.
"""
