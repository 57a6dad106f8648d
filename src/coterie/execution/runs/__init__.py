"""Runs as people have them: find, read, start, resume, control, fork, replay and rehearse them.

`repository` knows where runs are kept, `launch` starts and resumes them, `control` changes them where they are driven,
and `messages` are what others send to them. `coterie.execution.kernel` drives a run.

Other packages import `api`, `attempt_folders`, `attempt_output`, `attention`, `authority`, `backend_offers`,
`backend_setup`, `changed_files`, `checkups`, `comparison`, `control`, `ended`, `endings`, `finalizers`, `fork`,
`given_ids`, `index`, `launch`, `messages`, `messages.dispatch`, `messages.doorbell`, `messages.inbox`,
`messages.provisional`, `messages.tokens`, `messages.verdicts`, `named_runs`, `note_files`, `notifications`,
`outcome`, `python_hints`, `quotas`, `recovery`, `rehearsal`, `removal`, `replay`, `repository`, `retry`, `rows`,
`run_ids`, `run_stream`, `set_detail`, `sidecars`, `stale_trees`, `started`, `statistics`, `threads`, `tool_files`,
`turn_detail`, `what_if`; the rest is internal.
"""
