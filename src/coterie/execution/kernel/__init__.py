"""The driver of a run and its child runs: it appends each decision to the journal and acts on it once it is durable.

Other packages import `attempt_files`, `commands`, `core`, `driven_run`, `fold`, `kind`, `opening`, `owner`,
`plan_secrets`, `project`, `prompts`, `retries`, `run_exit`, `shell`, `stall`, `threads`, `turns`; the
rest is internal.
"""
