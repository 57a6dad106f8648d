"""Actors that answer messages, and the supervisors that keep them running, by the rules of Erlang/OTP.

An actor is addressed by name, never by object, so that it can live in another process. Lifecycle events are passed to a
sink as records; this package knows no journal and no run.

Other packages import `classes`, `context`, `dead_letters`, `declared`, `evaluation`, `hosted`, `http.endpoints`,
`http.server`, `imports`, `inputs`, `message`, `plain`, `plugins.litellm`, `plugins.loading`, `plugins.plugins`,
`plugins.providers`, `process`, `reply_streams`, `runtime`, `server`, `state.base`, `state.in_memory`,
`state.migration`, `state.sqlite`, `system`, `transports.broker`, `transports.kept_letters`, `transports.names`,
`transports.nats`, `turns`; the rest is internal.
"""
