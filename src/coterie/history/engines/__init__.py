"""The engines, which decide from the records of a run what happens next.

Other packages import `commands`, `fences`, `flow`, `generator`, `loop`, `loop.default_event`, `loop.promise`,
`loop.prompt_state`, `loop.unmerged`, `loop.verdict`, `patterns.aggregation`, `patterns.answers`, `patterns.consensus`,
`patterns.diversity`, `patterns.engine`, `patterns.program`, `patterns.registry`, `patterns.result`,
`patterns.sections`, `patterns.shown`, `patterns.structured`, `printed`, `program`, `questions`, `replies`, `schemas`,
`sets`, `system`, `versions`; the rest is internal.
"""
